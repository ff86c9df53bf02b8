package transferengine

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kvcache-ai/Mooncake/mooncake-store/go/hostmemory"
)

const size = 1 << 20

func start(t *testing.T) (*Engine, *hostmemory.Buffer) {
	t.Helper()
	engine, err := New("P2PHANDSHAKE", "127.0.0.1", false)
	check(t, err)
	memory, err := hostmemory.New(size)
	check(t, err)
	check(t, engine.Register(memory.Address(), memory.Size(), "*", true))
	t.Cleanup(func() {
		engine.Close()
		check(t, memory.Free())
	})
	return engine, memory
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBytesAndMessagesMoveBetweenEngines(t *testing.T) {
	here, source := start(t)
	there, target := start(t)
	for index := range source.Bytes() {
		source.Bytes()[index] = byte(index / 11)
	}
	name, err := there.Address()
	check(t, err)
	peer, err := here.OpenSegment(name)
	check(t, err)
	requests := []Request{
		{Write, source.Address(), peer, uint64(target.Address()), size / 2},
		{Write, source.Address() + size/2, peer, uint64(target.Address()) + size/2, size / 2},
	}
	wait, err := here.Transfer(context.Background(), requests)
	check(t, err)
	if wait != nil {
		t.Fatal("it has ended")
	}
	check(t, here.Notify(peer, Notify{Name: "go", Message: "written"}))
	notifies, err := there.TakeNotifies()
	check(t, err)
	if len(notifies) != 1 || notifies[0] != (Notify{"go", "written"}) {
		t.Fatal(notifies)
	}
	if !bytes.Equal(source.Bytes(), target.Bytes()) {
		t.Fatal("other bytes arrived")
	}
	check(t, here.CloseSegment(peer))
}

func TestABatchThatIsNotWaitedForEndsByItself(t *testing.T) {
	here, source := start(t)
	there, target := start(t)
	name, err := there.Address()
	check(t, err)
	peer, err := here.OpenSegment(name)
	check(t, err)
	given, cancel := context.WithCancel(context.Background())
	cancel()
	request := Request{Read, source.Address(), peer, uint64(target.Address()), size}
	wait, err := here.Transfer(given, []Request{request})
	// The batch may be quicker than the look at the context.
	if wait == nil {
		check(t, err)
		return
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	select {
	case err := <-wait:
		check(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

func TestWrongCallsAnswerErrors(t *testing.T) {
	here, memory := start(t)
	if err := here.Register(memory.Address(), 8, "*", true); err == nil {
		t.Fatal("it is registered already")
	}
	if _, err := here.OpenSegment("127.0.0.1:1"); err == nil {
		t.Fatal("no peer is there")
	}
	name, err := here.Address()
	check(t, err)
	own, err := here.OpenSegment(name)
	check(t, err)
	stranger := Request{Write, memory.Address(), own, 4096, 8}
	_, err = here.Transfer(context.Background(), []Request{stranger})
	var failed *TransferError
	if !errors.As(err, &failed) || failed.Index != 0 {
		t.Fatal(err)
	}
	here.Close()
	if _, err := here.Address(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestATextWithANulByteIsRefused(t *testing.T) {
	here, memory := start(t)
	const cut = "127.0.0.1\x00:1"
	calls := map[string]func() error{
		"metadata": func() error { _, err := New(cut, "127.0.0.1", false); return err },
		"name":     func() error { _, err := New("P2PHANDSHAKE", cut, false); return err },
		"location": func() error { return here.Register(memory.Address(), 8, cut, true) },
		"segment":  func() error { _, err := here.OpenSegment(cut); return err },
		"title":    func() error { return here.Notify(0, Notify{Name: cut}) },
		"message":  func() error { return here.Notify(0, Notify{Message: cut}) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s answered %v", name, err)
		}
	}
}
