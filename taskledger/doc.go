// Package taskledger makes plans and keeps them in files.
//
// [Planner] is the Task Ledger: one model call that splits a request into 2–5 dependent sub-tasks, or none at all for a
// request that is one step ([IsSimple]). When a part of a plan cannot be done, [Planner.Replan] makes that part again.
// [FromList] takes the numbered list that a user wrote, without a model.
//
// [Parse] and [ReadFile] read a plan file, strictly: whatever is wrong is reported with line, column and what to do,
// all of it at once ([FileError]). What the user may leave out is filled in the same way everywhere: an id is the
// sub-task's number, the subject is the first line of the description, the active form and the only criterion are the
// subject. [Format] and [WriteFile] write a file that reads back as the same plan with the same hash.
package taskledger
