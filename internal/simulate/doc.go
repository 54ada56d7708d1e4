// Package simulate is a deterministic simulation of whole boulders: the real orchestrator on the real store, in a world
// that is fully determined by a seed. Time is that of a testing/synctest bubble, so that back-offs, cool-downs and
// hours of work cost nothing. Processes crash before and after any commit, are killed, stopped, cancelled, and steered
// by a person; the sessions go on working meanwhile; the next process takes the boulder up, until it is over.
//
// It is test code only. docs/simulation.md says what is drawn, what is checked, and how to replay a failure.
package simulate
