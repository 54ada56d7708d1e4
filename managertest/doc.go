// Package managertest runs boulders without a model, so that whoever embeds manager can test gates, judge and plans of
// their own for nothing: [Runner] and [JudgeFunc] stand in for agent and judge, and [Model] is a language model that
// plays a script, for everything that asks one: a judge of your own, the ledgers, or the real OpenCode ([OpenCodeEnv]).
//
// manager's own tests use the same.
package managertest
