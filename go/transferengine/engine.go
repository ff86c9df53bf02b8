// Package transferengine moves bytes between registered memory of processes, on one host or on
// several, with Perigee's libtransfer_engine.so.
//
// All methods may be called from several goroutines at once, and none waits for ever. Memory is
// named by address and must be memory that Go does not own, such as a hostmemory.Buffer.
package transferengine

/*
#cgo pkg-config: transfer_engine
#include <transfer_engine_c.h>

// Handles and addresses are numbers to Go: neither is memory that it knows.
static inline void *engine_pointer(uintptr_t number) { return (void *)number; }

static inline transfer_engine_t engine_of(uintptr_t number) { return (transfer_engine_t)number; }

static inline uintptr_t engine_new(const char *metadata, const char *name, int discover) {
	return (uintptr_t)createTransferEngine(metadata, name, NULL, 0, discover);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrClosed is the answer of an engine that is closed or did not start; the standard error has a
// line with the reason.
var ErrClosed = errors.New("transferengine: the engine is closed or did not start")

// CallError is a call that the library answered with a code.
type CallError struct {
	// Call is the function of the library.
	Call string
	// Code is one of the ENGINE_ codes of transfer_engine_c.h.
	Code int
}

// Error says what failed, and the code.
func (e *CallError) Error() string {
	return fmt.Sprintf("transferengine: %s answered %d", e.Call, e.Code)
}

func verdict(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return &CallError{Call: call, Code: int(code)}
}

// Engine reads and writes memory that peers have registered.
type Engine struct {
	// Number of the library's handle, 0 once it is closed.
	handle uintptr
}

// New starts an engine. metadata is "P2PHANDSHAKE" or a service such as
// "http://host:8080/metadata"; name is the host, or host:port, by which peers reach this process.
// With discover RDMA is used where it works, and TCP elsewhere.
func New(metadata, name string, discover bool) (*Engine, error) {
	server, err := newText(metadata)
	if err != nil {
		return nil, err
	}
	defer freeText(server)
	own, err := newText(name)
	if err != nil {
		return nil, err
	}
	defer freeText(own)
	flag := C.int(0)
	if discover {
		flag = 1
	}
	handle := uintptr(C.engine_new(server, own, flag))
	if handle == 0 {
		return nil, ErrClosed
	}
	return &Engine{handle: handle}, nil
}

func (e *Engine) open() (C.transfer_engine_t, error) {
	handle := atomic.LoadUintptr(&e.handle)
	if handle == 0 {
		return nil, ErrClosed
	}
	return C.engine_of(C.uintptr_t(handle)), nil
}

// Close ends the engine: batches under way fail, its memory is forgotten.
func (e *Engine) Close() {
	if handle := atomic.SwapUintptr(&e.handle, 0); handle != 0 {
		C.destroyTransferEngine(C.engine_of(C.uintptr_t(handle)))
	}
}

// Address is the host:port that peers open as a segment.
func (e *Engine) Address() (string, error) {
	engine, err := e.open()
	if err != nil {
		return "", err
	}
	var text [512]C.char
	code := C.getLocalIpAndPort(engine, &text[0], C.size_t(len(text)))
	return C.GoString(&text[0]), verdict("getLocalIpAndPort", code)
}

// Register makes memory known: to peers, if remote, else to this engine's devices only. location
// is where it lies, such as "cpu:0", "cuda:0" or "*".
func (e *Engine) Register(address uintptr, size uint64, location string, remote bool) error {
	engine, err := e.open()
	if err != nil {
		return err
	}
	place, err := newText(location)
	if err != nil {
		return err
	}
	defer freeText(place)
	flag := C.int(0)
	if remote {
		flag = 1
	}
	pointer := C.engine_pointer(C.uintptr_t(address))
	code := C.registerLocalMemory(engine, pointer, C.size_t(size), place, flag)
	return verdict("registerLocalMemory", code)
}

// Unregister forgets memory, once the transfers that use it have ended.
func (e *Engine) Unregister(address uintptr) error {
	engine, err := e.open()
	if err != nil {
		return err
	}
	code := C.unregisterLocalMemory(engine, C.engine_pointer(C.uintptr_t(address)))
	return verdict("unregisterLocalMemory", code)
}

// Segment is a peer whose memory can be read and written.
type Segment int32

// OpenSegment finds a peer by its Address, or its name at the metadata service.
func (e *Engine) OpenSegment(name string) (Segment, error) {
	engine, err := e.open()
	if err != nil {
		return 0, err
	}
	text, err := newText(name)
	if err != nil {
		return 0, err
	}
	defer freeText(text)
	segment := C.openSegment(engine, text)
	if segment < 0 {
		return 0, verdict("openSegment", C.int(segment))
	}
	return Segment(segment), nil
}

// CloseSegment forgets a peer.
func (e *Engine) CloseSegment(segment Segment) error {
	engine, err := e.open()
	if err != nil {
		return err
	}
	return verdict("closeSegment", C.closeSegment(engine, C.int32_t(segment)))
}
