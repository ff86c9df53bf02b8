// Package hostmemory is memory that C libraries may keep the address of.
//
// Memory of Go's heap may be handed to a call, but not registered: the rules of cgo forbid that C
// keeps its address. A Buffer lies outside of the heap, so it can be registered with a store or an
// engine, and peers can write to it.
package hostmemory

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Buffer is zeroed, page-aligned memory. Free gives it back; it must not be registered then.
type Buffer struct {
	bytes []byte
}

// New makes a buffer of size bytes.
func New(size int) (*Buffer, error) {
	if size <= 0 {
		return nil, fmt.Errorf("hostmemory: %d bytes are no buffer", size)
	}
	const access = syscall.PROT_READ | syscall.PROT_WRITE
	bytes, err := syscall.Mmap(-1, 0, size, access, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("hostmemory: %d bytes: %w", size, err)
	}
	return &Buffer{bytes: bytes}, nil
}

// Bytes is the memory. It is nil after Free.
func (b *Buffer) Bytes() []byte {
	return b.bytes
}

// Address is the first byte's, 0 after Free.
func (b *Buffer) Address() uintptr {
	if b.bytes == nil {
		return 0
	}
	return uintptr(unsafe.Pointer(&b.bytes[0]))
}

// Size is the length in bytes.
func (b *Buffer) Size() uint64 {
	return uint64(len(b.bytes))
}

// Free gives the memory back. Slices of it must not be used any more.
func (b *Buffer) Free() error {
	if b.bytes == nil {
		return nil
	}
	bytes := b.bytes
	b.bytes = nil
	return syscall.Munmap(bytes)
}
