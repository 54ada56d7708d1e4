// Package prompts writes the prompts of sub-tasks: the brief of an attempt ([Build]), the prompts that continue its
// session ([Continuation], [Resume]), and what the next attempt is told of a failed one ([Digest]).
//
// It is pure: the same records give the same text, so a prompt can be made again after a crash. A brief is cut visibly,
//
//	[cut: 2000 of 5231 characters; full text: /project/.manager/runs/01k/api/output.md]
//
// with 2,000 characters missing here. The whole text goes into the file that the notice names. A character is a Unicode
// code point, in all limits and counts. Bytes that are not UTF-8 become U+FFFD.
package prompts
