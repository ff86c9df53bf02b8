//! Request traces in the published form: one JSON object per line with `timestamp`, `input_length`,
//! `output_length` and `hash_ids`, one number per block of the prompt. Invariant: no line makes a
//! client allocate without bound.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::error::BenchError;
use crate::limits::{BLOCKS_PER_REQUEST_MAX, TRACE_LINE_BYTES_MAX};

/// What is used of a line; other fields are left alone.
#[derive(Deserialize)]
struct Record {
    hash_ids: Vec<u64>,
}

/// The block numbers of the first `requests` requests (0 is all).
pub(crate) fn read_trace(path: &Path, requests: usize) -> Result<Vec<Vec<u64>>, BenchError> {
    let file = path.display().to_string();
    let refuse =
        |line: usize, detail: String| BenchError::Trace { file: file.clone(), line, detail };
    let opened = File::open(path)
        .map_err(|error| BenchError::Report { file: file.clone(), detail: error.to_string() })?;
    let mut found = Vec::new();
    for (at, line) in BufReader::new(opened).lines().enumerate() {
        if requests > 0 && found.len() >= requests {
            break;
        }
        let line = line.map_err(|error| refuse(at + 1, error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        found.push(blocks(&line).map_err(|detail| refuse(at + 1, detail))?);
    }
    if found.is_empty() {
        let detail = "no requests in this file".to_owned();
        return Err(BenchError::Report { file, detail });
    }
    Ok(found)
}

fn blocks(line: &str) -> Result<Vec<u64>, String> {
    if line.len() > TRACE_LINE_BYTES_MAX {
        return Err(format!("{} bytes, {TRACE_LINE_BYTES_MAX} at most", line.len()));
    }
    let record: Record = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match record.hash_ids.len() {
        0 => Err("hash_ids must have at least one number".to_owned()),
        count if count > BLOCKS_PER_REQUEST_MAX => {
            Err(format!("{count} blocks, {BLOCKS_PER_REQUEST_MAX} at most"))
        }
        _ => Ok(record.hash_ids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, requests: usize) -> Result<Vec<Vec<u64>>, BenchError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        std::fs::write(&path, text).unwrap();
        read_trace(&path, requests)
    }

    #[test]
    fn the_published_form_is_read() {
        let text = "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 5, \"hash_ids\": [0, 1]}\n\n\
                    {\"hash_ids\": [0, 7, 9]}\n";
        assert_eq!(of(text, 0).unwrap(), [vec![0, 1], vec![0, 7, 9]]);
        assert_eq!(of(text, 1).unwrap(), [vec![0, 1]]);
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        for (text, part) in [
            ("{\"hash_ids\": [1]}\nx\n", ":2:"),
            ("{\"hash_ids\": []}\n", "at least one"),
            ("{\"hash_ids\": [-1]}\n", ":1:"),
            ("{\"hash_ids\": [1.5]}\n", ":1:"),
            ("{}\n", "hash_ids"),
            ("", "no requests"),
        ] {
            let error = of(text, 0).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
        assert!(read_trace(Path::new("/no/such/file"), 0).is_err());
    }
}
