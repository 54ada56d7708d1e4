// Package bisect finds how many of a list of changes are green together, and the first one that is not, in few tests.
package bisect

// Prefix returns how many changes, from the first, can be accepted: as many as were tested together and were green. Unless
// these are all n, the next change was red on top of them. None at all count as green.
//
// test reports whether the first k changes are green together. blames is set if the first k-1 are known to be: red then
// means that change k is to blame, so the answer has to be sure, and may differ from an earlier one for k. All are tested
// first, then halves.
func Prefix(n int, test func(k int, blames bool) (green bool, err error)) (accepted int, err error) {
	var red []int // prefixes above accepted that were red, the longest first
	for accepted < n {
		k := n
		if len(red) > 0 {
			k = (accepted + red[len(red)-1] + 1) / 2 // the red one itself if nothing is between
		}
		green, err := test(k, k == accepted+1)
		switch {
		case err != nil:
			return accepted, err
		case !green && k == accepted+1:
			return accepted, nil
		case !green:
			red = append(red, k)
			continue
		}
		accepted = k
		for len(red) > 0 && red[len(red)-1] <= accepted {
			red = red[:len(red)-1]
		}
	}
	return accepted, nil
}
