// Package managertest runs boulders without a model, so that embedders can test gates, a judge and plans at no cost.
// [Runner] and [JudgeFunc] stand in for agent and judge. [Model] is a scripted language model for everything that asks
// one: a judge of your own, the ledgers, or the real OpenCode ([OpenCodeEnv]). manager's own tests use the same.
package managertest
