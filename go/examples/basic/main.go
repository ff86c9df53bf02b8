// Basic puts an object, reads it and removes it.
//
// Usage: basic MASTER_HOST:PORT
package main

import (
	"fmt"
	"log"
	"os"

	store "github.com/kvcache-ai/Mooncake/mooncake-store/go/mooncakestore"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: basic MASTER_HOST:PORT")
	}
	s, err := store.New()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	// It lends no memory; nodes of the cluster do.
	if err := s.Setup("127.0.0.1", "P2PHANDSHAKE", 0, 16<<20, "tcp", "", os.Args[1]); err != nil {
		log.Fatal(err)
	}
	if err := s.Put("greeting", []byte("hello from Go"), nil); err != nil {
		log.Fatal(err)
	}
	size, err := s.GetSize("greeting")
	if err != nil {
		log.Fatal(err)
	}
	bytes := make([]byte, size)
	if _, err := s.Get("greeting", bytes); err != nil {
		log.Fatal(err)
	}
	if err := s.Remove("greeting", true); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("read %q\n", bytes)
}
