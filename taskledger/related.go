package taskledger

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/workspace"
)

const (
	maxRelated = 30      // files that a survey names for a task
	maxTerms   = 60      // words of a task that are looked for; further ones are left out
	maxScanned = 1 << 19 // bytes of a file that is searched: larger ones are data
	maxScans   = 1 << 26 // bytes of all files that are searched
)

// Weights of what speaks for a file, each measured as a share of the best file's; found with bench/survey.
const (
	byContent = 1.0
	byName    = 1.0
	byExact   = 0.6
	byHistory = 1.0
	byChanges = 0.4
	byPartner = 0.6  // of the score of the file that it tests, or that tests it
	byFolder  = 0.15 // of the best score in its directory
)

// related ranks the files that the words of a task point at, and returns the best, at most [maxRelated], and how many files
// were not searched for want of time or because they are long. A file that the task
// names comes first. Else there are four signs, each weighed by how rare the word is: the words in a file's path; those in
// its content; identifiers of the task in its content; and earlier commits with such subjects that changed the file. Files of
// tests and what they test follow each other.
func related(
	ctx context.Context, dir, task string, files []string, past []workspace.PastCommit,
) (best []string, unsearched int) {
	q := newQuery(task)
	if len(q.terms) == 0 || len(files) == 0 {
		return nil, 0
	}
	scores := make([]float64, len(files))
	add := func(weight float64, part []float64) {
		if top := slices.Max(part); top > 0 {
			for i := range scores {
				scores[i] += weight * part[i] / top
			}
		}
	}
	names := q.names(files)
	history, changes := q.history(files, past)
	first := make([]int, len(files)) // to be searched, likeliest first, as the time may end
	for i := range first {
		first[i] = i
	}
	slices.SortStableFunc(first, func(a, b int) int { return cmp.Compare(names[b]+history[b]+changes[b], names[a]+history[a]+changes[a]) })
	content, exact, unsearched := q.contents(ctx, dir, files, first)
	add(byName, names)
	add(byContent, content)
	add(byExact, exact)
	add(byHistory, history)
	for i, name := range files {
		if scores[i] > 0 && sideFile().MatchString(name) {
			scores[i] /= 4
		}
	}
	if slices.Max(scores) == 0 {
		return nil, unsearched
	}
	add(byChanges, changes)
	spread(scores, files)
	for i, name := range files {
		scores[i] += q.named(name)
	}
	order := make([]int, len(files))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, i := range order[:min(maxRelated, len(order))] {
		if scores[i] > 0 {
			best = append(best, files[i])
		}
	}
	return best, unsearched
}

// sideFile matches what follows other changes, or is made by tools.
var sideFile = text.Regexp(`(?i)(^|/)(change-?log|changes|history|release-?notes)[^/]*$|\.(lock|lockb|sum|snap|svg|map|min\.js|min\.css|ipynb|csv|po)$` +
	`|(^|/)(package-lock\.json|pnpm-lock\.yaml)$|(^|/)(vendor|node_modules|third_party|__snapshots__|__fixtures__|dist)/`)

// query is what a task's words ask for.
type query struct {
	terms []string       // stems, in the order of the task
	index map[string]int // by stem
	exact []string       // identifiers, as they are written: parseURL, max_size
	whole []string       // compounds, in lower case: react-query, usequeries
	paths []string       // what may be a path
	first [1 << 15]bool  // the first three letters of all terms, see [prefix]
}

func newQuery(task string) *query {
	q := &query{index: map[string]int{}}
	task = address().ReplaceAllString(task, " ")
	for _, word := range codeWord().FindAllString(task, -1) {
		word = strings.Trim(word, "./-")
		if strings.ContainsAny(word, "./") {
			addTo(&q.paths, word)
		} else if len(q.whole) < maxTerms/2 && (strings.ContainsAny(word, "-_") || mixedCase().MatchString(word)) {
			addTo(&q.whole, strings.ToLower(word))
		}
		for _, part := range strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune("./-", r) }) {
			if len(part) > 3 && len(q.exact) < maxTerms/2 && (strings.Contains(strings.Trim(part, "_"), "_") || mixedCase().MatchString(part)) {
				addTo(&q.exact, part)
			}
		}
	}
	words([]byte(task), func(word []byte) {
		term := string(stem(nil, word))
		if _, known := q.index[term]; known || len(q.terms) == maxTerms || len(term) < 2 || isStop(string(bytes.ToLower(word))) {
			return
		}
		q.index[term] = len(q.terms)
		q.terms = append(q.terms, term)
		q.first[prefix([]byte(term))] = true
	})
	return q
}

var (
	address   = text.Regexp(`\w+://\S+|\S+@\S+`)
	codeWord  = text.Regexp(`[\w./-]+`)
	mixedCase = text.Regexp(`[a-z0-9][A-Z]`)
)

const stopWords = ` a an the and or not of to in on at by for from with without into as is are was were be been it its this that these those there then than
 when where which who what how if else so but we you i he they our your can could should would will may might must do does did done have has had
 all any some each every more most other such no only own same too very just also now new via per up out off over under again once here both few
 add adds added fix fixes fixed use uses used using make makes made get gets let lets allow allows ensure please want need needs
 because before after while about instead rather still since see co authored signed com github http https www pr pull request issue closes close resolves `

func isStop(word string) bool { return strings.Contains(stopWords, " "+word+" ") }

// words calls f for each word of a text: letters and digits; parseURL and parse_url have two.
func words(data []byte, f func(word []byte)) {
	from := -1
	for i, c := range data {
		if !letter[c] {
			if from >= 0 {
				f(data[from:i])
				from = -1
			}
			continue
		}
		if from < 0 {
			from = i
			continue
		}
		starts := upper(c) && (!upper(data[i-1]) || i+1 < len(data) && lower(data[i+1]))
		if starts {
			f(data[from:i])
			from = i
		}
	}
	if from >= 0 {
		f(data[from:])
	}
}

func upper(c byte) bool { return c >= 'A' && c <= 'Z' }
func lower(c byte) bool { return c >= 'a' && c <= 'z' }

var letter = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
	}
	return is
}()

// prefix maps the first three letters of a word to a number, in upper and lower case alike.
func prefix(word []byte) (n int) {
	for i := range 3 {
		n <<= 5
		if i < len(word) {
			n |= int(word[i] & 31)
		}
	}
	return n
}

// stem appends a word to buf, in lower case and without its ending: cached, caching and caches are cach.
func stem(buf, word []byte) []byte {
	from := len(buf)
	for _, c := range word {
		if upper(c) {
			c += 'a' - 'A'
		}
		buf = append(buf, c)
	}
	cut := func(ending string, least int) bool {
		n := len(buf) - len(ending)
		if n-from < least || string(buf[n:]) != ending {
			return false
		}
		buf = buf[:n]
		return true
	}
	if cut("ies", 2) {
		return append(buf, 'y')
	}
	if !cut("es", 3) && len(buf)-from > 3 && buf[len(buf)-2] != 's' {
		cut("s", 3)
	}
	if cut("ing", 3) || cut("ed", 3) || cut("er", 4) || cut("or", 4) {
		if n := len(buf); buf[n-1] == buf[n-2] && buf[n-1] != 's' && buf[n-1] != 'l' {
			buf = buf[:n-1]
		}
	} else {
		cut("ion", 4)
	}
	cut("e", 3)
	cut("at", 5)
	return buf
}

// rarity is the weight of a word that some of all files have.
func rarity(having, all int) float64 {
	return math.Log(1 + (float64(all-having)+0.5)/(float64(having)+0.5))
}

// names scores files by the words in their paths; the last name counts more than the directories.
func (q *query) names(files []string) []float64 {
	const ofFolder = 0.4
	in := make([][]float64, len(files)) // by file and term
	having := make([]int, len(q.terms))
	var buf []byte
	for i, name := range files {
		in[i] = make([]float64, len(q.terms))
		base := strings.LastIndexByte(name, '/') + 1
		count := func(part string, weight float64) {
			words([]byte(part), func(word []byte) {
				buf = stem(buf[:0], word)
				if t, known := q.index[string(buf)]; known {
					if in[i][t] == 0 {
						having[t]++
					}
					in[i][t] = max(in[i][t], weight)
				}
			})
		}
		count(name[:base], ofFolder)
		count(name[base:], 1)
	}
	scores := make([]float64, len(files))
	for i := range files {
		for t, weight := range in[i] {
			scores[i] += weight * rarity(having[t], len(files))
		}
	}
	q.compounds(files, scores)
	return scores
}

// compounds adds to the scores of files whose paths have a compound as it is: its parts may be in many.
func (q *query) compounds(files []string, scores []float64) {
	const ofName, ofPath = 1.5, 0.75
	lowered := make([]string, len(files))
	for i, name := range files {
		lowered[i] = strings.ToLower(name)
	}
	for _, whole := range q.whole {
		var having []int
		for i, name := range lowered {
			if strings.Contains(name, whole) {
				having = append(having, i)
			}
		}
		weight := rarity(len(having), len(files))
		for _, i := range having {
			if strings.Contains(path.Base(lowered[i]), whole) {
				scores[i] += ofName * weight
			} else {
				scores[i] += ofPath * weight
			}
		}
	}
}

// contents scores files by the words in them, and by the identifiers; first is the order to search them in. unsearched counts files for which there was no time or
// no room.
func (q *query) contents(
	ctx context.Context, dir string, files []string, first []int,
) (scores, exact []float64, unsearched int) {
	n := len(q.terms)
	counts := make([]uint16, n*len(files)) // by file and term
	has := make([]bool, len(q.exact)*len(files))
	lengths := make([]float64, len(files))
	var group errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	var done atomic.Int64
	for w := range workers {
		group.Go(func() error {
			room := maxScans / workers
			var buf []byte
			for at := w; at < len(files) && room > 0 && ctx.Err() == nil; at += workers {
				i := first[at]
				data := readText(filepath.Join(dir, filepath.FromSlash(files[i])), maxScanned)
				room -= len(data)
				done.Add(1)
				lengths[i] = float64(len(data))
				words(data, func(word []byte) {
					if len(word) < 2 || !q.first[prefix(word)] {
						return
					}
					buf = stem(buf[:0], word)
					if t, known := q.index[string(buf)]; known && counts[i*n+t] < math.MaxUint16 {
						counts[i*n+t]++
					}
				})
				for e, word := range q.exact {
					has[i*len(q.exact)+e] = bytes.Contains(data, []byte(word))
				}
			}
			return nil
		})
	}
	_ = group.Wait()

	having, havingExact, searched, total := make([]int, n), make([]int, len(q.exact)), 0, 0.0
	for i := range files {
		if lengths[i] > 0 {
			searched++
		}
		total += lengths[i]
		for t := range n {
			having[t] += int(min(1, counts[i*n+t]))
		}
		for e := range q.exact {
			if has[i*len(q.exact)+e] {
				havingExact[e]++
			}
		}
	}
	scores, exact = make([]float64, len(files)), make([]float64, len(files))
	for i := range files {
		const soon, long = 1.2, 0.3 // how fast more of the same word counts less, and how much a long file loses (Okapi BM25)
		often := soon * (1 - long + long*lengths[i]*float64(searched)/max(1, total))
		for t := range n {
			if c := float64(counts[i*n+t]); c > 0 {
				scores[i] += rarity(having[t], searched) * c * (soon + 1) / (c + often)
			}
		}
		for e := range q.exact {
			if has[i*len(q.exact)+e] {
				exact[i] += rarity(havingExact[e], searched)
			}
		}
	}
	return scores, exact, len(files) - int(done.Load())
}

// readText returns the content of a regular file without following a link; nil if it is longer than most, binary or
// unreadable. It never blocks.
func readText(name string, most int64) []byte {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if err != nil && n == 0 || bytes.IndexByte(data[:min(n, 8000)], 0) >= 0 {
		return nil
	}
	return data[:n]
}

// history scores files by earlier commits that changed them: by the words of their subjects, and by how many there are.
func (q *query) history(files []string, past []workspace.PastCommit) (scores, changes []float64) {
	scores, changes = make([]float64, len(files)), make([]float64, len(files))
	at := make(map[string]int, len(files))
	for i, name := range files {
		at[name] = i
	}
	in := make([]map[int]bool, len(past)) // the terms in a subject
	having := make([]int, len(q.terms))
	var buf []byte
	for i, commit := range past {
		in[i] = map[int]bool{}
		words([]byte(commit.Subject), func(word []byte) {
			buf = stem(buf[:0], word)
			if t, known := q.index[string(buf)]; known && !in[i][t] {
				in[i][t] = true
				having[t]++
			}
		})
	}
	for i, commit := range past {
		alike := 0.0
		for t := range in[i] {
			alike += rarity(having[t], len(past))
		}
		fresh := 1 / (1 + float64(i)/10) // the last commits are often about the same thing
		each := 1 / math.Sqrt(float64(len(commit.Files)+1))
		for _, name := range commit.Files {
			if f, there := at[name]; there {
				scores[f] += alike * alike * each * math.Sqrt(fresh)
				changes[f] += fresh * each
			}
		}
	}
	for f := range scores {
		scores[f], changes[f] = math.Sqrt(scores[f]), math.Sqrt(changes[f])
	}
	return scores, changes
}

// spread gives files a part of the scores of their neighbours: those with the same name but for a mark of tests, and those
// in the same directory.
func spread(scores []float64, files []string) {
	const most = 5 // files called index or types are no partners
	partners, folders, alike := map[string]float64{}, map[string]float64{}, map[string]int{}
	keys := make([]string, len(files))
	for i, name := range files {
		key, dir := partner(name), path.Dir(name)
		keys[i] = key
		alike[key]++
		partners[key], folders[dir] = max(partners[key], scores[i]), max(folders[dir], scores[i])
	}
	for i, name := range files {
		if key := keys[i]; alike[key] <= most {
			scores[i] = max(scores[i], byPartner*partners[key])
		}
		scores[i] += byFolder * folders[path.Dir(name)]
	}
}

var testMark = text.Regexp(`(?i)^(test|tests|spec)[_.-]|[_.-](test|tests|spec|e2e|node|edge|test-d|stories)$`)

// partner returns what the name of a file and that of its test have in common.
func partner(name string) string {
	name = path.Base(name)
	name = strings.TrimSuffix(name, path.Ext(name))
	for {
		short := testMark().ReplaceAllString(name, "")
		if short == name || short == "" {
			return name
		}
		name = short
	}
}

// named is the score of a file whose path a task names, whole or in part.
func (q *query) named(name string) (score float64) {
	for _, p := range q.paths {
		switch {
		case name == p:
			score = max(score, 20)
		case strings.HasSuffix(name, "/"+p) && strings.Contains(p, "/"):
			score = max(score, 15)
		case strings.HasSuffix(name, "/"+p):
			score = max(score, 5)
		case strings.Contains(p, "/") && strings.HasPrefix(name, p+"/"):
			score = max(score, 0.5)
		}
	}
	return score
}
