package boulder

// Body is the type-specific part of an event: one of the structs of this package that [TypeOf] knows.
type Body interface{ isBody() }

func (Created) isBody()         {}
func (Planned) isBody()         {}
func (Decomposed) isBody()      {}
func (StatusChanged) isBody()   {}
func (Resumed) isBody()         {}
func (ClockMoved) isBody()      {}
func (SessionLeft) isBody()     {}
func (Prepared) isBody()        {}
func (LookStarted) isBody()     {}
func (LookSession) isBody()     {}
func (Looked) isBody()          {}
func (Starting) isBody()        {}
func (SubTaskStart) isBody()    {}
func (TurnSent) isBody()        {}
func (Nudged) isBody()          {}
func (SubTaskProgress) isBody() {}
func (TurnEnded) isBody()       {}
func (GateRun) isBody()         {}
func (Isolated) isBody()        {}
func (Integrating) isBody()     {}
func (Integrated) isBody()      {}
func (Conflict) isBody()        {}
func (Judged) isBody()          {}
func (Continuation) isBody()    {}
func (Retry) isBody()           {}
func (Trouble) isBody()         {}
func (Cooled) isBody()          {}
func (ReplanStarted) isBody()   {}
func (PlanTrouble) isBody()     {}
func (ReplanProposed) isBody()  {}
func (Replanned) isBody()       {}
func (ReplanRefused) isBody()   {}
func (RevisionAsked) isBody()   {}
func (RevisionRefused) isBody() {}
func (RequestChecked) isBody()  {}
func (BudgetSet) isBody()       {}
func (BudgetWarning) isBody()   {}
func (PlanEdited) isBody()      {}
func (ModelSet) isBody()        {}
func (Parked) isBody()          {}
func (Unparked) isBody()        {}
func (Noted) isBody()           {}
func (Reopened) isBody()        {}
func (Redone) isBody()          {}
func (Kept) isBody()            {}
func (Archived) isBody()        {}
func (BlockerRaised) isBody()   {}
func (WaitEnded) isBody()       {}
func (BlockerSettled) isBody()  {}
func (UsageReport) isBody()     {}
func (SubTaskDone) isBody()     {}
func (Landed) isBody()          {}
func (TaskComplete) isBody()    {}
