package mooncakestore

// ReplicateConfig says how objects are placed and kept.
type ReplicateConfig struct {
	// ReplicaNum is the number of copies on distinct segments, 1 or more.
	ReplicaNum int
	// WithSoftPin keeps an object until nothing else is left to be evicted.
	WithSoftPin bool
	// WithHardPin keeps an object until it is removed.
	WithHardPin bool
	// PreferredSegments are names "host:port" that are tried in order.
	PreferredSegments []string
}

// DefaultReplicateConfig is one copy without a pin, which a nil config means, too.
func DefaultReplicateConfig() ReplicateConfig {
	return ReplicateConfig{ReplicaNum: 1}
}
