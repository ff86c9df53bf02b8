//! The perigee program, also under Mooncake's program names.
