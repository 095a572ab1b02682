package budget

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

const mib = 1 << 20

// within returns a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// isEmpty reports whether no request has memory or waits.
func (b *Budget[Client]) isEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used == 0 && len(b.clients) == 0 && len(b.waiting) == 0 && b.exceeding == nil
}

func TestReservation_DoesNotWaitForLargerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](256 * mib)
		first, second := b.Reserve("a"), b.Reserve("b")
		is.NoErr(first.Grow(t.Context(), 1000*mib)) // all there is for large ones
		done := make(chan time.Duration)
		start := time.Now()
		go func() {
			if err := second.Grow(t.Context(), 40*mib); err != nil {
				t.Error(err)
			}
			done <- time.Since(start)
		}()
		synctest.Wait()
		for i := range 16 {
			small := b.Reserve(strconv.Itoa(i))
			is.True(small.TryGrow(SmallSize))
			is.True(small.TryGrow(2 * mib))
			defer small.Release()
		}
		for i := range 500 {
			small := b.Reserve(strconv.Itoa(i))
			is.True(small.TryGrow(SmallSize))
			defer small.Release()
		}
		time.Sleep(time.Second)
		first.Release()
		is.Equal(<-done, time.Second)
		second.Release()
	})
}

func TestNew_HasMemoryForSmallRequests(t *testing.T) {
	is := is.New(t)
	b := New[int](1)
	for client := range 4 {
		r := b.Reserve(client)
		is.True(r.TryGrow(SmallSize))
	}
}

func TestReservation_WaitsInOrderAndNotForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](64 * mib)
		first := b.Reserve("a")
		is.NoErr(first.Grow(t.Context(), 48*mib))
		order := make(chan int, 3)
		for i, size := range []int64{47 * mib, 2 * mib, 47 * mib} {
			go func() {
				r := b.Reserve(strconv.Itoa(i))
				defer r.Release()
				if err := r.Grow(t.Context(), size); err != nil {
					t.Error(err)
				}
				order <- i
				time.Sleep(time.Second)
			}()
			synctest.Wait()
		}
		last := b.Reserve("z")
		is.Equal(last.Grow(within(t, time.Minute), mib), ErrExhausted)
		is.True(!last.TryGrow(mib)) // not past those that wait
		first.Release()
		got := []int{<-order, <-order, <-order}
		time.Sleep(time.Minute)
		is.Equal(got, []int{0, 1, 2})
		is.NoErr(last.Grow(within(t, time.Minute), mib))
		last.Release()
		last.Release()
		is.True(b.isEmpty())
	})
}

func TestReservation_CanceledOneIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](64 * mib)
		first, second, third := b.Reserve("a"), b.Reserve("b"), b.Reserve("c")
		is.NoErr(first.Grow(t.Context(), 20*mib))
		ctx, canceled := within(t, time.Second), make(chan error, 1)
		go func() { canceled <- second.Grow(ctx, 40*mib) }()
		synctest.Wait()
		start := time.Now()
		is.NoErr(third.Grow(within(t, time.Minute), 10*mib)) // fits, but waits behind the second
		is.Equal(time.Since(start), time.Second)
		is.Equal(<-canceled, ErrExhausted)
		first.Release()
		third.Release()
		is.True(b.isEmpty())
	})
}

func TestReservation_ExcessThatFitsIsCounted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := New[string](64 * mib) // 48 for large ones
	first, second, third := b.Reserve("a"), b.Reserve("b"), b.Reserve("c")
	is.True(first.TryGrow(30*mib) && second.TryGrow(15*mib))
	is.True(second.TryGrow(25 * mib)) // exceeds the budget
	first.Release()
	is.True(!third.TryGrow(24 * mib))
	is.True(third.TryGrow(23 * mib))
	second.Release()
	third.Release()
	is.True(b.isEmpty())
}

func TestReservation_ClientHasHalfOfTheMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := New[string](64 * mib)
	first, second, third, other := b.Reserve("a"), b.Reserve("a"), b.Reserve("a"), b.Reserve("b")
	is.True(first.TryGrow(16 * mib))
	is.True(second.TryGrow(16 * mib))
	is.True(!third.TryGrow(mib))
	is.True(other.TryGrow(16 * mib)) // the third is not in its way
	other.Release()
	second.Release()
	is.True(first.TryGrow(48 * mib)) // its only one
	first.Shrink(8 * mib)
	is.Equal(first.Size(), int64(8*mib))
	is.True(third.TryGrow(24 * mib))
	first.Release()
	third.Release()
	is.True(b.isEmpty())
}

// TestReservation_WaitingForOwnOnes has a request that waits for others of its client, and
// one that waits for those of all clients.
func TestReservation_WaitingForOwnOnes(t *testing.T) {
	for name, test := range map[string]struct {
		wants int64
		fits  bool // another client's
	}{
		"own": {17 * mib, true},
		"all": {16 * mib, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				b := New[string](64 * mib) // 48 for large ones
				used, waiting := b.Reserve("a"), b.Reserve("a")
				is.True(used.TryGrow(16 * mib))
				is.True(waiting.TryGrow(6 * mib))
				others, exceeding := b.Reserve("b"), b.Reserve("c")
				is.True(others.TryGrow(20 * mib))
				is.True(exceeding.TryGrow(4 * mib))
				is.True(exceeding.TryGrow(30 * mib))
				granted := make(chan error)
				go func() { granted <- waiting.Grow(within(t, time.Minute), test.wants) }()
				synctest.Wait()
				later := b.Reserve("d")
				is.Equal(later.TryGrow(2*mib), test.fits)
				for _, r := range []*Reservation[string]{&others, &exceeding, &used} {
					r.Release()
				}
				is.NoErr(<-granted)
				waiting.Release()
				later.Release()
				is.True(b.isEmpty())
			})
		})
	}
}

// TestReservation_GrowingRequestsEnd has two requests that need more than there is, and
// have a part of it already.
func TestReservation_GrowingRequestsEnd(t *testing.T) {
	for _, clients := range [][2]string{{"a", "a"}, {"a", "b"}} {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			b := New[string](64 * mib)
			first, second, third := b.Reserve(clients[0]), b.Reserve(clients[1]), b.Reserve("c")
			is.NoErr(first.Grow(t.Context(), 16*mib))
			is.NoErr(second.Grow(t.Context(), 16*mib))
			is.NoErr(first.Grow(t.Context(), 40*mib))
			is.Equal(first.Size(), int64(40*mib))
			is.NoErr(first.Grow(t.Context(), 90*mib)) // and all that it needs
			is.Equal(first.Size(), int64(90*mib))
			time.AfterFunc(time.Second, first.Release)
			start := time.Now()
			is.NoErr(second.Grow(t.Context(), 45*mib))
			is.Equal(time.Since(start), time.Second)
			is.Equal(third.Grow(within(t, time.Minute), 40*mib), ErrExhausted) // it has nothing yet
			second.Release()
			is.NoErr(third.Grow(t.Context(), 40*mib))
			third.Release()
			is.True(b.isEmpty())
		})
	}
}

// TestReservation_NeverExceedsTheBudgetByTwo makes random requests of eight clients.
func TestReservation_NeverExceedsTheBudgetByTwo(t *testing.T) {
	t.Parallel()
	b := New[int](64 * mib)
	var wg sync.WaitGroup
	for seed := range 32 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			for range 200 {
				r := b.Reserve(seed % 8)
				size := int64(0)
				for range random.IntN(5) {
					size += random.Int64N(10 * mib)
					if err := r.Grow(context.Background(), size); err != nil {
						t.Error(err)
					}
					if r.Size() < size {
						t.Errorf("%d bytes of %d", r.Size(), size)
					}
					b.mu.Lock()
					if b.used > b.size {
						t.Errorf("%d bytes are used of %d", b.used, b.size)
					}
					b.mu.Unlock()
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	is.New(t).True(b.isEmpty())
}

// TestReservation_ExcessCountsUntilItFits reduces a reservation that exceeds the budget.
func TestReservation_ExcessCountsUntilItFits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b := New[string](64 * mib)
	first, second, third := b.Reserve("a"), b.Reserve("b"), b.Reserve("c")
	is.True(first.TryGrow(16 * mib))
	is.True(second.TryGrow(16 * mib))
	is.True(third.TryGrow(mib))
	is.True(first.TryGrow(40 * mib))
	first.Shrink(35 * mib)
	is.True(first.Exceeds())
	is.Equal(first.Size(), int64(35*mib))
	is.True(!third.TryGrow(20 * mib)) // only one exceeds the budget
	second.Release()
	is.True(!first.Exceeds())
	first.Release()
	is.True(third.TryGrow(20 * mib))
	third.Release()
	is.True(b.isEmpty())
}

// TestReservation_WaitsOnlyForMemory has a request that waits for one of another client, which
// then waits for its own client.
func TestReservation_WaitsOnlyForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](mib)
		slow := b.Reserve("c")
		is.True(slow.TryGrow(300 << 10))
		grow := func(client string, size int64) chan error {
			r, granted := b.Reserve(client), make(chan error, 1)
			go func() { granted <- r.Grow(within(t, time.Minute), size) }()
			synctest.Wait()
			return granted
		}
		first := grow("a", 510<<10)
		second := grow("b", 100<<10)
		is.Equal(len(second), 0)
		is.NoErr(<-grow("a", 10<<10)) // small, and then the first is not in the way
		synctest.Wait()
		is.Equal(len(second), 1)
		is.NoErr(<-second)
		is.True(<-first != nil)
	})
}
