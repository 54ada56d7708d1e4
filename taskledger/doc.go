// Package taskledger makes plans and keeps them in files.
//
// [Planner] is the Task Ledger: one model call that splits a request into 2–5 dependent sub-tasks, or leaves it whole
// if it is one step; a request that is [IsSimple] needs no call. [Planner.Replan] replans the part of a plan that could
// not be done. [FromList] makes a plan of the user's numbered list, without a model.
//
// [Parse] and [ReadFile] read a plan file strictly: they report all mistakes at once, with line, column and remedy
// ([FileError]). Defaults are the same everywhere: an id is the sub-task's number, the subject is the first line of the
// description, the active form and the only criterion are the subject. [Format] and [WriteFile] write a file that reads
// back as the same plan with the same hash.
package taskledger
