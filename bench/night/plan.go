package main

import (
	"fmt"
	"strings"
	"time"
)

type subTask struct {
	id, subject string
	models      string // default: those of the plan
	dependsOn   string
	until       time.Duration // its agent works until this time of the night
}

const planModels = "[north/large, south/large, south/small]"

var plan = []subTask{
	{"rates", "Add the new tax rate to the table", "", "", hour(1, 15)},
	{"rounding", "Round as the new law wants it", "[south/large, north/small]", "", hour(1, 30)},
	{"cart", "Use it in the cart", "", "rates", hour(2, 45)},
	{"invoices", "Use it in invoices", "", "rates, rounding", hour(2, 45)},
	{"refunds", "Use it in refunds", "", "rates", 0}, // asks the user
	{"receipts", "Use it in receipts", "", "cart", hour(4, 0)},
	{"mails", "Use it in mails", "", "invoices", hour(4, 15)},
	{"export", "Use it in the export", "", "invoices", hour(5, 45)},
	{"admin", "Use it in the admin pages", "[south/large, north/small]", "cart", hour(5, 30)},
	{"docs", "Describe it", "", "receipts, mails", hour(6, 15)},
	{"texts", "Have the texts translated", "[south/small, north/small]", "mails", hour(6, 45)},
	{"release", "Write what is new", "", "docs, export, admin, texts", hour(8, 0)},
}

func planFile() string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\ntask: Move the shop to the new tax rate\nmodel: %s\nsub_tasks:\n", planModels)
	for _, t := range plan {
		fmt.Fprintf(&b, "  - id: %s\n    subject: %s\n    description: %s, in shop/%s.txt.\n    depends_on: [%s]\n", t.id, t.subject, t.subject, t.id, t.dependsOn)
		fmt.Fprintf(&b, "    success_criteria: [shop/%s.txt has it]\n    gates: [grep -q Step shop/%s.txt]\n    expects_changes: true\n", t.id, t.id)
		if t.models != "" {
			fmt.Fprintf(&b, "    model: %s\n", t.models)
		}
	}
	return b.String()
}
