package budget

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

const mib = 1 << 20

func TestHold_SmallRequestsDoNotWaitForLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](64*mib, 5*time.Second)
		first, second := b.Reserve("a"), b.Reserve("b")
		is.NoErr(first.Grow(t.Context(), 40*mib))
		done := make(chan time.Duration)
		start := time.Now()
		go func() {
			if err := second.Grow(t.Context(), 40*mib); err != nil {
				t.Error(err)
			}
			done <- time.Since(start)
		}()
		synctest.Wait()
		for i := range 100 {
			small := b.Reserve(strconv.Itoa(i))
			is.NoErr(small.Grow(t.Context(), SmallSize))
			is.Equal(time.Since(start), time.Duration(0))
			defer small.Release()
		}
		time.Sleep(time.Second)
		first.Release()
		is.Equal(<-done, time.Second)
		second.Release()
	})
}

func TestHold_WaitsInOrderAndNotForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](64*mib, 5*time.Second)
		first := b.Reserve("a")
		is.NoErr(first.Grow(t.Context(), 50*mib))
		order := make(chan int, 3)
		for i, size := range []int64{47 * mib, 2 * mib, 2 * mib} {
			go func() {
				h := b.Reserve(string(rune('b' + i)))
				defer h.Release()
				if err := h.Grow(t.Context(), size); err != nil {
					t.Error(err)
				}
				order <- i
				time.Sleep(time.Second)
			}()
			synctest.Wait()
		}
		late := b.Reserve("z")
		released := make(chan struct{})
		time.AfterFunc(time.Second, func() { first.Release(); close(released) })
		is.NoErr(late.Grow(t.Context(), mib))
		<-released
		is.Equal(<-order, 0)
		late.Release()
		time.Sleep(10 * time.Second)

		is.NoErr(first.Grow(t.Context(), 56*mib))
		start := time.Now()
		is.Equal(late.Grow(t.Context(), mib), ErrExhausted)
		is.Equal(time.Since(start), 5*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		is.Equal(late.Grow(ctx, mib), ErrExhausted)
		first.Release()
		is.NoErr(late.Grow(t.Context(), 1000*mib)) // all there is
		late.Release()
	})
}

func TestHold_ClientHasHalfOfTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](64*mib, time.Millisecond)
		var holds []*Reservation[string]
		for range 3 {
			h := new(b.Reserve("a"))
			if err := h.Grow(t.Context(), 12*mib); err != nil {
				is.Equal(err, ErrExhausted)
				is.Equal(len(holds), 2)
				break
			}
			holds = append(holds, h)
		}
		is.True(holds[0].Grow(t.Context(), 20*mib) != nil)
		other := b.Reserve("b")
		is.NoErr(other.Grow(t.Context(), 24*mib))
		other.Release()
		holds[1].Release()
		is.NoErr(holds[0].Grow(t.Context(), 50*mib)) // its only one
		holds[0].Release()
		for _, part := range b.parts {
			is.Equal(len(part.held), 0)
		}
	})
}

func TestHold_RequestsOfOneSizeDoNotWaitForLargerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](128*mib, 5*time.Second)
		all, waiting := b.Reserve("a"), b.Reserve("b")
		is.NoErr(all.Grow(t.Context(), 1000*mib))
		done := make(chan error)
		go func() { done <- waiting.Grow(t.Context(), 1000*mib) }()
		synctest.Wait()
		start := time.Now()
		for i := range 16 {
			h := b.Reserve(strconv.Itoa(i))
			is.NoErr(h.Grow(t.Context(), SmallSize/2))
			is.NoErr(h.Grow(t.Context(), mib))
			defer h.Release()
		}
		is.Equal(time.Since(start), time.Duration(0))
		all.Release()
		is.NoErr(<-done)
		waiting.Release()
	})
}

func TestHold_OneRequestMayExceedTheBudgetToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		b := New[string](64*mib, 5*time.Second)
		for _, clients := range [][2]string{{"a", "a"}, {"a", "b"}} {
			first, second := b.Reserve(clients[0]), b.Reserve(clients[1])
			is.NoErr(first.Grow(t.Context(), 12*mib))
			is.NoErr(second.Grow(t.Context(), 12*mib))
			start := time.Now()
			is.NoErr(first.GrowLast(t.Context(), 45*mib))
			is.Equal(first.Size(), int64(45*mib))
			time.AfterFunc(time.Second, first.Release)
			is.NoErr(second.GrowLast(t.Context(), 45*mib))
			is.Equal(time.Since(start), time.Second)
			third := b.Reserve("c")
			is.NoErr(third.Grow(t.Context(), mib))
			is.Equal(third.GrowLast(t.Context(), 45*mib), ErrExhausted)
			second.Release()
			is.NoErr(third.GrowLast(t.Context(), 45*mib))
			third.Release()
		}
		is.Equal(len(b.excess), 0)
	})
}
