// Package workspace is where a sub-task works: for now, in place, in the directory that the user named. It records the
// state of that directory before and after, and says what changed between them.
//
// A state is a git tree ([Workspace.Snapshot]): all files that git tracks or would track, changed or new, committed
// or not. Taking one leaves the user's index, HEAD, refs, stash and files alone; it works on a copy of the index, so
// that git's knowledge of unchanged files is used and a lock that somebody holds does not matter. What it adds to the
// repository are objects that nothing refers to; git removes them by itself when they are two weeks old
// (gc.pruneExpire). Within that time `git gc --prune=now` removes them too, and a diff against them says so then.
//
// Outside of a git work tree everything goes on, without diffs; [Workspace.Reason] says why.
//
// A submodule or an embedded repository counts by the commit it is at: uncommitted changes inside are not seen, and one
// without a commit is not seen at all. Nor are files that git ignores, cannot read, or leaves out of a sparse checkout.
package workspace
