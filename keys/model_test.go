package keys

import (
	"fmt"
	"testing"

	"github.com/matryer/is"
)

// This file checks the protocol between cache, lease and change log by
// exploring every interleaving of a small model: a checker, a filler and a
// renewer of one process, and a revoker of two keys in another.
//
// Time is modeled by what the real lease guarantees. Questions, commits and
// leases carry the step at which they were made, and the revoking call returns
// when the current lease, if any, was asked for after its commit. Leases may
// end at any time.

// rules are the steps of the protocol that the model can break.
type rules struct {
	floorRaised    bool // applying a response raises the floor
	floorChecked   bool // a fill is dropped if the floor was raised since it began
	floorFirst     bool // the floor is raised before digests are evicted
	evictFirst     bool // digests are evicted before the lease is published
	gapInvalidates bool // an incomplete log evicts everything
	tokenChecksKey bool // a page token that is known to be signed needs the entry of its key
}

var protocol = rules{floorRaised: true, floorChecked: true, floorFirst: true, evictFirst: true, gapInvalidates: true, tokenChecksKey: true}

// small is the type of the numbers in a state. Most of the time is spent on comparing
// and hashing states.
type small int8

const modelKeys small = 2

// How often the processes of the model act, at most. Each broken rule shows with
// these. With one more fill, renewal and check there are 3.6 million states, and
// no violation.
const (
	fillerRounds  = 1
	renewerRounds = 2
	checkerRounds = 1
)

// model is the state of the model. It is comparable, so that each state is
// explored once.
type model struct {
	step small // counts commits and questions

	// the store
	revoked  [modelKeys]bool
	commits  [modelKeys]small // step of the commit
	epoch    small
	prunedTo small            // changes up to this epoch are not in the log
	logged   [modelKeys]small // epoch of the change

	// the process
	floor  small
	since  small           // epoch of the last response that was applied
	cached [modelKeys]bool // an entry that accepts the key
	signed [modelKeys]bool // a page token of the key is known to be signed
	leased bool
	asked  small // step of the question behind the lease

	filler  fillerState
	renewer renewerState
	revoker revokerState
	checker checkerState
}

type fillerState struct {
	at, key, floor small
	found          bool // the key was not revoked when it was read
	rounds         small
}

type renewerState struct {
	at, asked, since, epoch small
	evict                   [modelKeys]bool
	rounds                  small
}

type revokerState struct {
	at, key  small
	returned [modelKeys]bool
}

type checkerState struct {
	at, key small
	token   bool // checks a page token
	late    bool // the check began after the revoking call returned
	rounds  small
}

// successors returns the states that one step leads to. It returns an error if
// a check accepts a key after the revoking call returned.
func (m model) successors(r rules) (next []model, err error) {
	add := func(change func(*model)) {
		s := m
		change(&s)
		next = append(next, s)
	}
	if m.leased {
		add(func(s *model) { s.leased = false })
	}
	m.addFiller(r, add)
	m.addRenewer(r, add)
	m.addRevoker(add)
	switch m.checker.at {
	case 0:
		for key := range modelKeys {
			for _, token := range []bool{false, true} {
				if m.checker.rounds < checkerRounds && m.leased {
					add(func(s *model) {
						s.checker = checkerState{at: 1, key: key, token: token, late: m.revoker.returned[key], rounds: m.checker.rounds + 1}
					})
				}
			}
		}
	case 1:
		accepted := m.cached[m.checker.key]
		if m.checker.token && !r.tokenChecksKey {
			accepted = m.signed[m.checker.key]
		}
		if m.checker.late && accepted {
			return nil, fmt.Errorf("key %d accepted after its revocation returned", m.checker.key)
		}
		add(func(s *model) { s.checker.at = 0 })
	}
	return next, nil
}

// A fill reads the floor, then the store, then fills the cache under the lock
// that evicting takes too.
func (m model) addFiller(r rules, add func(func(*model))) {
	switch m.filler.at {
	case 0:
		for key := range modelKeys {
			if m.filler.rounds < fillerRounds {
				add(func(s *model) {
					s.filler = fillerState{at: 1, key: key, floor: m.floor, rounds: m.filler.rounds + 1}
				})
			}
		}
	case 1:
		add(func(s *model) { s.filler.at, s.filler.found = 2, !m.revoked[m.filler.key] })
	case 2:
		add(func(s *model) {
			s.filler.at = 0
			if m.filler.found && (!r.floorChecked || m.floor == m.filler.floor) {
				s.cached[m.filler.key] = true
				s.signed[m.filler.key] = true
			}
		})
	}
}

// The renewer asks, gets the state of the store at some time after that, and
// applies it.
func (m model) addRenewer(r rules, add func(func(*model))) {
	raise := func(s *model) {
		if r.floorRaised {
			s.floor++
		}
	}
	evict := func(s *model) {
		for key, evicted := range m.renewer.evict {
			if evicted {
				s.cached[key] = false
			}
		}
	}
	publish := func(s *model) {
		s.leased, s.asked, s.since = true, m.renewer.asked, m.renewer.epoch
		for key, returned := range m.revoker.returned {
			if returned && s.asked <= m.commits[key] {
				s.leased = false // the response is too late
			}
		}
	}
	first, second, third := raise, evict, publish
	if !r.floorFirst {
		first, second = evict, raise
	}
	if !r.evictFirst {
		second, third = publish, evict
	}
	switch m.renewer.at {
	case 0:
		if m.renewer.rounds < renewerRounds {
			add(func(s *model) {
				s.step++
				s.renewer = renewerState{at: 1, asked: s.step, since: m.since, rounds: m.renewer.rounds + 1}
			})
		}
	case 1:
		add(func(s *model) {
			s.renewer.at, s.renewer.epoch = 2, m.epoch
			for key, epoch := range m.logged {
				s.renewer.evict[key] = epoch > m.renewer.since && epoch > m.prunedTo ||
					r.gapInvalidates && m.renewer.since < m.prunedTo
			}
		})
		add(func(s *model) { s.renewer.at = 0 }) // the response is lost
	case 2:
		add(func(s *model) { first(s); s.renewer.at = 3 })
	case 3:
		add(func(s *model) { second(s); s.renewer.at = 4 })
	case 4:
		add(func(s *model) { third(s); s.renewer.at = 0 })
	}
}

// The revoker commits the revocation of one key after the other, and returns
// from each when no lease is older than the commit. The log may be pruned.
func (m model) addRevoker(add func(func(*model))) {
	v := m.revoker
	switch {
	case v.key == modelKeys:
	case v.at == 0:
		add(func(s *model) {
			s.step++
			s.epoch++
			s.revoked[v.key], s.commits[v.key], s.logged[v.key] = true, s.step, s.epoch
			s.revoker.at = 1
		})
	case !m.leased || m.asked > m.commits[v.key]:
		add(func(s *model) {
			s.revoker.returned[v.key] = true
			s.revoker.at, s.revoker.key = 0, v.key+1
		})
	}
	if m.prunedTo < m.epoch {
		add(func(s *model) { s.prunedTo = m.epoch })
	}
}

// explore visits every state. It returns the first violation.
func explore(r rules) (states int, err error) {
	seen := map[model]bool{{}: true}
	queue := []model{{}}
	for len(queue) > 0 {
		m := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		next, err := m.successors(r)
		if err != nil {
			return len(seen), err
		}
		for _, s := range next {
			if !seen[s] {
				seen[s] = true
				queue = append(queue, s)
			}
		}
	}
	return len(seen), nil
}

func TestModel_ProtocolIsSufficientAndNecessary(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	states, err := explore(protocol)
	is.NoErr(err)
	t.Logf("%d states", states)
	for name, broken := range map[string]func(*rules){
		"floor not raised":          func(r *rules) { r.floorRaised = false },
		"floor not checked":         func(r *rules) { r.floorChecked = false },
		"evicted before the floor":  func(r *rules) { r.floorFirst = false },
		"published before evicting": func(r *rules) { r.evictFirst = false },
		"gap in the log ignored":    func(r *rules) { r.gapInvalidates = false },
		"token without its key":     func(r *rules) { r.tokenChecksKey = false },
	} {
		r := protocol
		broken(&r)
		_, err := explore(r)
		t.Logf("%s: %v", name, err)
		is.True(err != nil) // a violation
	}
}
