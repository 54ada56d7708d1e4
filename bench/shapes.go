package main

import (
	"fmt"

	"github.com/bouldermgr/manager/boulder"
)

// Shapes of work, each as the sizes of its layers: a step depends on all of the layer before, and on none of its own.
// bench/langgraph/steps.mjs has the same.
const (
	shapeChain    = "chain"
	shapeFanOut   = "fan-out"
	shapeDiamonds = "diamonds" // of five: one, three beside each other, one
)

func layers(shape string, steps int) []int {
	switch shape {
	case shapeFanOut:
		return []int{1, steps - 2, 1}
	case shapeDiamonds:
		var widths []int
		for range steps / 5 {
			widths = append(widths, 1, 3, 1)
		}
		return widths
	}
	widths := make([]int, steps)
	for i := range widths {
		widths[i] = 1
	}
	return widths
}

// shapedPlan is a plan of sub-tasks in that shape.
func shapedPlan(shape string, steps int) *boulder.Plan {
	plan := &boulder.Plan{Version: 1, Task: "Measure the loop", Goal: "The loop is measured"}
	var before []string
	for _, width := range layers(shape, steps) {
		var layer []string
		for range width {
			id := fmt.Sprintf("s%d", len(plan.SubTasks))
			layer = append(layer, id)
			plan.SubTasks = append(plan.SubTasks, boulder.Spec{
				ID: id, Subject: "Do " + id, Description: "Do nothing.", DependsOn: before,
			})
		}
		before = layer
	}
	return plan
}
