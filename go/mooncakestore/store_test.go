package mooncakestore

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/kvcache-ai/Mooncake/mooncake-store/go/hostmemory"
)

// masterVariable names a master whose cluster has a node.
const masterVariable = "PERIGEE_TEST_MASTER"

func open(t *testing.T) *Store {
	t.Helper()
	master := os.Getenv(masterVariable)
	if master == "" {
		t.Skipf("%s names no master", masterVariable)
	}
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Setup("127.0.0.1", "P2PHANDSHAKE", 0, 16<<20, "tcp", "", master); err != nil {
		t.Fatal(err)
	}
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestObjectsArePutReadAndRemoved(t *testing.T) {
	s := open(t)
	check(t, s.HealthCheck())
	name, err := s.Hostname()
	check(t, err)
	if name == "" {
		t.Fatal("it has a name")
	}
	value := bytes.Repeat([]byte("page"), 1024)
	config := &ReplicateConfig{ReplicaNum: 1, WithSoftPin: true, PreferredSegments: []string{"a:1", "b:2"}}
	check(t, s.Put("go/one", value, config))
	size, err := s.GetSize("go/one")
	check(t, err)
	read := make([]byte, size)
	count, err := s.Get("go/one", read)
	check(t, err)
	if count != int64(len(value)) || !bytes.Equal(read, value) {
		t.Fatalf("%d bytes are not those that were put", count)
	}
	there, err := s.BatchExists([]string{"go/one", "go/two"})
	check(t, err)
	if !there[0] || there[1] {
		t.Fatal(there)
	}
	check(t, s.Remove("go/one", true))
	exists, err := s.Exists("go/one")
	check(t, err)
	if exists {
		t.Fatal("it was removed")
	}
}

func TestBatchesGoFromAndIntoRegisteredMemory(t *testing.T) {
	s := open(t)
	const block = 64 << 10
	memory, err := hostmemory.New(4 * block)
	check(t, err)
	t.Cleanup(func() { check(t, memory.Free()) })
	check(t, s.RegisterBuffer(memory.Address(), memory.Size()))
	for index := range memory.Bytes()[:2*block] {
		memory.Bytes()[index] = byte(index / 7)
	}
	keys := []string{"go/block/0", "go/block/1"}
	sizes := []uint64{block, block}
	at := func(number uintptr) uintptr { return memory.Address() + number*block }
	stored, err := s.BatchPutFrom(keys, []uintptr{at(0), at(1)}, sizes, nil)
	check(t, err)
	read, err := s.BatchGetInto(keys, []uintptr{at(2), at(3)}, sizes)
	check(t, err)
	for index := range keys {
		if stored[index] != 0 || read[index] != block {
			t.Fatal(stored, read)
		}
	}
	if !bytes.Equal(memory.Bytes()[:2*block], memory.Bytes()[2*block:]) {
		t.Fatal("other bytes came back")
	}
	check(t, s.PutFrom("go/block/2", at(0), block, nil))
	count, err := s.GetInto("go/block/2", at(2), block)
	check(t, err)
	if count != block {
		t.Fatal(count)
	}
	removed, err := s.RemoveByRegex("^go/block/", true)
	check(t, err)
	if removed != 3 {
		t.Fatal(removed)
	}
	check(t, s.UnregisterBuffer(memory.Address()))
}

func TestErrorsSayWhatFailedAndWhy(t *testing.T) {
	s := open(t)
	_, err := s.Get("go/absent", make([]byte, 8))
	if !errors.Is(err, ErrGet) || Code(err) != CodeNotFound {
		t.Fatal(err)
	}
	if err := s.Put("go/bad", []byte("x"), &ReplicateConfig{}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	if _, err := s.BatchPutFrom([]string{"a"}, nil, nil, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	if err := s.RegisterBuffer(0, 8); !errors.Is(err, ErrInvalidArgument) {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if err := s.HealthCheck(); !errors.Is(err, ErrStoreNil) {
		t.Fatal(err)
	}
}

// Programs that were written for Mooncake's package compile: its names and types.
func TestNamesAreMooncakes(t *testing.T) {
	type mooncakes interface {
		Setup(string, string, uint64, uint64, string, string, string) error
		InitAll(string, string, uint64) error
		HealthCheck() error
		Close()
		Put(string, []byte, *ReplicateConfig) error
		PutFrom(string, uintptr, uint64, *ReplicateConfig) error
		BatchPutFrom([]string, []uintptr, []uint64, *ReplicateConfig) ([]int, error)
		GetInto(string, uintptr, uint64) (int64, error)
		Get(string, []byte) (int64, error)
		BatchGetInto([]string, []uintptr, []uint64) ([]int64, error)
		Exists(string) (bool, error)
		BatchExists([]string) ([]bool, error)
		GetSize(string) (int64, error)
		Hostname() (string, error)
		Remove(string, bool) error
		RemoveByRegex(string, bool) (int64, error)
		RemoveAll(bool) (int64, error)
		RegisterBuffer(uintptr, uint64) error
		UnregisterBuffer(uintptr) error
	}
	var _ mooncakes = (*Store)(nil)
	var _ func() (*Store, error) = New
	var _ ReplicateConfig = DefaultReplicateConfig()
	all := []error{
		ErrStoreNil, ErrSetupFailed, ErrInitAllFailed, ErrHealthCheck, ErrPut, ErrGet, ErrRemove,
		ErrExist, ErrGetSize, ErrRegisterBuffer, ErrUnregisterBuffer, ErrBatchOp, ErrHostname,
		ErrInvalidArgument,
	}
	for _, err := range all {
		if err.Error() == "" {
			t.Fatal("an error has a text")
		}
	}
}

func TestATextWithANulByteNamesNoObject(t *testing.T) {
	s, err := New()
	check(t, err)
	t.Cleanup(s.Close)
	const cut = "go/one\x00two"
	one, sizes, ptrs := []byte{1}, []uint64{1}, []uintptr{1}
	keys := []string{"go/one", cut}
	calls := map[string]func() error{
		"Setup":    func() error { return s.Setup(cut, "", 0, 0, "tcp", "", "") },
		"InitAll":  func() error { return s.InitAll("tcp", cut, 0) },
		"Put":      func() error { return s.Put(cut, one, nil) },
		"PutFrom":  func() error { return s.PutFrom(cut, 1, 1, nil) },
		"Get":      func() error { _, err := s.Get(cut, one); return err },
		"GetInto":  func() error { _, err := s.GetInto(cut, 1, 1); return err },
		"Exists":   func() error { _, err := s.Exists(cut); return err },
		"GetSize":  func() error { _, err := s.GetSize(cut); return err },
		"Remove":   func() error { return s.Remove(cut, false) },
		"Regex":    func() error { _, err := s.RemoveByRegex(cut, false); return err },
		"Existing": func() error { _, err := s.BatchExists(keys); return err },
		"Reads":    func() error { _, err := s.BatchGetInto(keys[1:], ptrs, sizes); return err },
		"Writes":   func() error { _, err := s.BatchPutFrom(keys[1:], ptrs, sizes, nil); return err },
		"Segments": func() error {
			return s.Put("go/one", one, &ReplicateConfig{ReplicaNum: 1, PreferredSegments: keys})
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s answered %v", name, err)
		}
	}
}
