package storagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"reflect"
	"strconv"
	"testing"
	"time"

	"example.com/canvasback/exports"
)

var linkChecks = []check{
	{"a link is found as stored", linkFound},
	{"FindLink omits a known plan", linkKnownPlan},
	{"ReplacePlan replaces the plan of a version once", linkReplacePlan},
	{"AddServed adds up", linkServed},
	{"links are bounded per owner", linkOwnerLimit},
	{"links are bounded in total", linkTotalLimit},
	{"expired links are deleted", linkExpiry},
	{"links are not shared with the caller", linkValues},
	{"links persist", linkPersists},
}

// manyLinks exceed the number of links in a test.
var manyLinks = exports.LinkLimits{PerOwner: 1000, Total: 1000}

func digestOf(text string) exports.Digest { return sha256.Sum256([]byte(text)) }

// newLink returns a link of an owner as it is stored.
func newLink(token, owner string) exports.StoredLink {
	return exports.StoredLink{
		Digest:    digestOf(token),
		Owner:     digestOf(owner),
		Version:   1,
		CreatedAt: testTime,
		ExpiresAt: testTime.Add(time.Hour),
		Plan:      []byte("plan of " + token + "\x00\xff"),
	}
}

func insertLink(t testing.TB, s Storage, link exports.StoredLink, limits exports.LinkLimits) exports.StoredLink {
	t.Helper()
	given := link
	given.Version, given.Served = 7, 7 // ignored
	must(t, linkStore(t, s).InsertLink(t.Context(), given, limits))
	return link
}

func wantLink(t testing.TB, s Storage, want exports.StoredLink) {
	t.Helper()
	got, err := linkStore(t, s).FindLink(t.Context(), want.Digest, 0)
	must(t, err)
	if !equalLinks(got, want) {
		t.Errorf("FindLink returns %s, want %s", summary(got), summary(want))
	}
}

func equalLinks(a, b exports.StoredLink) bool {
	samePlan := bytes.Equal(a.Plan, b.Plan)
	a.Plan, b.Plan = nil, nil
	return samePlan && reflect.DeepEqual(a, b)
}

func wantNoLink(t testing.TB, s Storage, link exports.StoredLink) {
	t.Helper()
	_, err := linkStore(t, s).FindLink(t.Context(), link.Digest, 0)
	wantError(t, err, exports.ErrLinkNotFound)
}

func linkFound(t *testing.T, s Harness) {
	a := insertLink(t, s, newLink("a", "x"), manyLinks)
	b := newLink("b", "x")
	b.Owner, b.Plan = exports.Digest{}, []byte{}
	b.CreatedAt, b.ExpiresAt = times[1], times[3]
	insertLink(t, s, b, manyLinks)
	large := newLink("large", "y")
	large.Plan = bytes.Repeat([]byte("plan"), 1<<20)
	insertLink(t, s, large, manyLinks)
	for _, link := range []exports.StoredLink{a, b, large} {
		wantLink(t, s, link)
	}
	wantNoLink(t, s, newLink("c", "x"))
}

func linkKnownPlan(t *testing.T, s Harness) {
	link := insertLink(t, s, newLink("a", "x"), manyLinks)
	for known, want := range map[int64][]byte{1: nil, 0: link.Plan, 2: link.Plan, -1: link.Plan} {
		got, err := linkStore(t, s).FindLink(t.Context(), link.Digest, known)
		must(t, err)
		if !bytes.Equal(got.Plan, want) || got.Version != 1 {
			t.Errorf("FindLink with version %d known returns plan %q of version %d", known, got.Plan, got.Version)
		}
	}
	_, err := linkStore(t, s).FindLink(t.Context(), digestOf("b"), 1)
	wantError(t, err, exports.ErrLinkNotFound)
}

func linkReplacePlan(t *testing.T, s Harness) {
	link, other := insertLink(t, s, newLink("a", "x"), manyLinks), insertLink(t, s, newLink("b", "x"), manyLinks)
	for _, version := range []int64{2, 1, 1, 0, 2} {
		plan := []byte("replaced " + strconv.FormatInt(version, 10))
		if version == link.Version {
			link.Version, link.Plan = link.Version+1, plan
		}
		got, err := linkStore(t, s).ReplacePlan(t.Context(), link.Digest, version, plan)
		must(t, err)
		if !equalLinks(got, link) {
			t.Errorf("ReplacePlan of version %d returns %s, want %s", version, summary(got), summary(link))
		}
		wantLink(t, s, link)
	}
	wantLink(t, s, other)
	for _, version := range []int64{0, 1} {
		_, err := linkStore(t, s).ReplacePlan(t.Context(), digestOf("c"), version, nil)
		wantError(t, err, exports.ErrLinkNotFound)
	}
}

func linkServed(t *testing.T, s Harness) {
	link, other := insertLink(t, s, newLink("a", "x"), manyLinks), insertLink(t, s, newLink("b", "x"), manyLinks)
	for _, amount := range []int64{5, 0, 1 << 50} {
		must(t, linkStore(t, s).AddServed(t.Context(), link.Digest, amount))
		link.Served += amount
		wantLink(t, s, link)
	}
	must(t, linkStore(t, s).AddServed(t.Context(), digestOf("c"), 1))
	replaced, err := linkStore(t, s).ReplacePlan(t.Context(), link.Digest, 1, nil)
	must(t, err)
	if replaced.Served != link.Served {
		t.Errorf("ReplacePlan changes Served from %d to %d", link.Served, replaced.Served)
	}
	wantLink(t, s, other)
}

func linkOwnerLimit(t *testing.T, s Harness) {
	limits := exports.LinkLimits{PerOwner: 3, Total: 1000}
	other := insertLink(t, s, newLink("other", "y"), limits)
	var links []exports.StoredLink
	for i := range 10 {
		links = append(links, insertLink(t, s, newLink(strconv.Itoa(i), "x"), limits))
		for j, link := range links {
			if j <= i-limits.PerOwner {
				wantNoLink(t, s, link)
			} else {
				wantLink(t, s, link)
			}
		}
	}
	wantLink(t, s, other)
}

func linkTotalLimit(t *testing.T, s Harness) {
	limits := exports.LinkLimits{PerOwner: 1000, Total: 3}
	var links []exports.StoredLink
	for i := range 10 {
		links = append(links, insertLink(t, s, newLink(strconv.Itoa(i), strconv.Itoa(i)), limits))
		for j, link := range links {
			if j <= i-limits.Total {
				wantNoLink(t, s, link)
			} else {
				wantLink(t, s, link)
			}
		}
	}
}

func linkExpiry(t *testing.T, s Harness) {
	early, late := newLink("early", "x"), newLink("late", "y")
	late.ExpiresAt = late.ExpiresAt.Add(time.Millisecond)
	insertLink(t, s, early, manyLinks)
	insertLink(t, s, late, manyLinks)
	next := newLink("next", "z")
	next.CreatedAt = early.ExpiresAt.Add(-time.Millisecond)
	insertLink(t, s, next, manyLinks)
	wantLink(t, s, early)
	last := newLink("last", "z")
	last.CreatedAt, last.ExpiresAt = early.ExpiresAt, early.ExpiresAt.Add(time.Hour)
	insertLink(t, s, last, manyLinks)
	wantNoLink(t, s, early)
	wantNoLink(t, s, next)
	wantLink(t, s, late)
	wantLink(t, s, last)
}

func linkValues(t *testing.T, s Harness) {
	link := newLink("a", "x")
	plan := bytes.Clone(link.Plan)
	given := link
	given.Plan = plan
	insertLink(t, s, given, manyLinks)
	plan[0]++
	wantLink(t, s, link)
	got, err := linkStore(t, s).FindLink(t.Context(), link.Digest, 0)
	must(t, err)
	got.Plan[0]++
	wantLink(t, s, link)
}

func linkPersists(t *testing.T, s Harness) {
	second := s.reopen(t)
	link := insertLink(t, s, newLink("a", "x"), manyLinks)
	wantLink(t, second, link)
	must(t, linkStore(t, second).AddServed(t.Context(), link.Digest, 3))
	replaced, err := linkStore(t, second).ReplacePlan(t.Context(), link.Digest, 1, []byte("new"))
	must(t, err)
	wantLink(t, s, replaced)
}

// concurrentPlans checks that of many plans in place of one version, one is
// stored and all calls return it.
func concurrentPlans(t *testing.T, handles []Storage) {
	const workers = 16
	link := insertLink(t, handles[0], newLink("a", "x"), manyLinks)
	got := make([]exports.StoredLink, workers)
	for _, err := range parallel(handles, workers, func(s Storage, i int) (err error) {
		if err := linkStore(t, s).AddServed(t.Context(), link.Digest, 1); err != nil {
			return err
		}
		got[i], err = linkStore(t, s).ReplacePlan(t.Context(), link.Digest, 1, []byte(strconv.Itoa(i)))
		return err
	}) {
		must(t, err)
	}
	for _, stored := range got {
		if stored.Version != 2 || !bytes.Equal(stored.Plan, got[0].Plan) {
			t.Errorf("ReplacePlan returns plan %q of version %d, another call %q", stored.Plan, stored.Version, got[0].Plan)
		}
	}
	link.Version, link.Served, link.Plan = 2, workers, got[0].Plan
	wantLink(t, handles[1], link)
}

// concurrentLinks checks the limits after concurrent insertions.
func concurrentLinks(t *testing.T, handles []Storage) {
	linkStore(t, handles[0])
	const workers, each = 8, 10
	limits := exports.LinkLimits{PerOwner: 5, Total: 1000}
	for _, err := range parallel(handles, workers, func(s Storage, i int) error {
		for n := range each {
			if err := linkStore(t, s).InsertLink(t.Context(), newLink(strconv.Itoa(i*each+n), "x"), limits); err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	last := insertLink(t, handles[0], newLink("last", "x"), limits)
	wantLink(t, handles[1], last)
	left := 0
	for i := range workers * each {
		if _, err := linkStore(t, handles[0]).FindLink(context.Background(), digestOf(strconv.Itoa(i)), 0); err == nil {
			left++
		}
	}
	if left != limits.PerOwner-1 {
		t.Errorf("%d links are left besides the last one, want %d", left, limits.PerOwner-1)
	}
}
