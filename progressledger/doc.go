// Package progressledger judges ended turns: it turns what the manager saw itself into a verdict.
//
// [Judge.Judge] asks a model once per turn, with the evidence cut to a budget, and puts the answer through [Normalize],
// which holds the rules that no model can overrule: a red gate, open todos or diagnostics where they count, missing
// changes where changes are expected, and a truncated turn all mean "not completed"; so does a criterion without
// evidence, or a declared output without a value. The model can veto; it cannot wave through.
//
// Where a sub-task's done_when does not name the judge, no model is asked and those rules decide alone. They also do
// when the model gives no usable answer: then only gates can make a sub-task complete, and without gates nothing is
// claimed.
package progressledger
