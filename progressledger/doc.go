// Package progressledger judges ended turns: it turns evidence that the manager gathered itself into a verdict.
//
// [Judge.Judge] asks a model once per turn, with the evidence cut to a budget, and puts the answer through [Normalize],
// whose rules no model can overrule. A red gate, open todos or diagnostics where they count, missing but expected
// changes, and a truncated turn mean "not completed"; so does a criterion without evidence, or a declared output
// without a value. The model can veto, but not wave through.
//
// If a sub-task's done_when does not name the judge, the rules decide without a model. They also decide if the model
// gives no usable answer; then only gates can make a sub-task complete, and without gates there is no verdict.
package progressledger
