//! Lists of what Mooncake's users lean on, compared with the running programs.
//! Invariant: the lists are data; a deliberate difference is written in the list itself.

#[cfg(test)]
mod flags;
#[cfg(test)]
mod http_routes;
#[cfg(test)]
mod list;
#[cfg(test)]
mod metric_families;
#[cfg(test)]
mod python_tests;
