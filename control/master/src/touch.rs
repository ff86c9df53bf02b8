//! Why an object is touched.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A client asked whether it exists.
    Probe,
    /// A client got its descriptors.
    Read,
}
