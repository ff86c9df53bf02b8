//! Links in Markdown pages.
//! Invariant: a relative link points at a file or folder of this repository.

use super::violation::Violation;

/// Links of one page whose target is missing; `exists` takes a path relative to the root.
pub(super) fn check(file: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Violation> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in links(line) {
            match resolve(folder, target) {
                Some(path) if !exists(&path) => {
                    let message = format!("Link to {target}, which does not exist");
                    findings.push(Violation::new(file, index + 1, message));
                }
                Some(_) => {}
                None => {
                    let message = format!("Link to {target} leaves the repository");
                    findings.push(Violation::new(file, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Relative targets of `[text](target)` in one line, without fragment.
fn links(line: &str) -> Vec<&str> {
    line.match_indices("](")
        .filter_map(|(at, mark)| line[at + mark.len()..].split_once(')'))
        .filter_map(|(target, _)| target.split(['#', ' ']).next())
        .filter(|target| !target.is_empty() && !target.contains(':'))
        .collect()
}

/// Path from the root, or nothing when it would leave the root.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_from_the_folder_of_the_page() {
        let page = "[a](b.md#part) [c](../d/) [e](https://f.org/g) [h](#i)";
        let asked = std::cell::RefCell::new(Vec::new());
        let findings = check("x/y/README.md", page, |path| {
            asked.borrow_mut().push(path.to_owned());
            path != "x/d"
        });
        assert_eq!(*asked.borrow(), ["x/y/b.md", "x/d"]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].message, "Link to ../d/, which does not exist");
    }

    #[test]
    fn links_out_of_the_repository_are_found() {
        let findings = check("README.md", "[a](../shared/b.md)", |_| true);
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn code_blocks_hold_no_links() {
        assert!(check("README.md", "```\n[a](b)\n```\n", |_| false).is_empty());
    }
}
