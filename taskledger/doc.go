// Package taskledger makes plans and keeps them in files.
//
// [Planner] is the Task Ledger: a model call that lists what a request demands, and a second one that splits it into 2–5
// dependent sub-tasks, unless the first found that one agent does it as well. [NewSurvey] is what both are told of the
// project. [Planner.Replan] replans the part of a plan that could
// not be done. [FromList] makes a plan of the user's numbered list, without a model.
//
// [Parse] and [ReadFile] read a plan file strictly: they report all mistakes at once, with line, column and remedy
// ([FileError]). Defaults are the same everywhere: an id is the sub-task's number, the subject is the first line of the
// description, the active form and the only criterion are the subject. [Format] and [WriteFile] write a file that reads
// back as the same plan with the same hash.
package taskledger
