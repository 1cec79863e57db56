//! A whole terminal that is drawn again and again, and given back as it was.

use std::io::{self, Write};

use console::{Term, truncate_str};

/// Lines and columns where nobody tells.
const USUAL: (u16, u16) = (24, 80);

/// The terminal while a command has it. Dropped, it shows again what it showed before.
pub struct Screen(Term);

impl Screen {
    /// Takes the terminal.
    pub fn enter() -> anyhow::Result<Self> {
        write!(io::stdout(), "\x1b[?1049h\x1b[?25l")?;
        Ok(Self(Term::stdout()))
    }

    /// Shows these lines, as many and as much of each as there is room for.
    pub fn draw(&self, lines: &[String]) -> anyhow::Result<()> {
        let (rows, columns) = self.0.size_checked().unwrap_or(USUAL);
        let mut drawn = String::from("\x1b[H");
        let rows = usize::from(rows).max(1);
        let hidden = lines.len().saturating_sub(rows);
        // The last row tells that there is more.
        let shown = if hidden > 0 { rows - 1 } else { lines.len() };
        for line in &lines[..shown] {
            drawn.push_str(&truncate_str(line, usize::from(columns), "…"));
            drawn.push_str("\x1b[K\r\n");
        }
        match hidden {
            0 => {
                drawn.truncate(drawn.len().saturating_sub(2));
                drawn.push_str("\x1b[J");
            }
            _ => drawn.push_str(&format!("… {} more lines; a larger window shows them\x1b[K", hidden + 1)),
        }
        let mut out = io::stdout();
        write!(out, "{drawn}")?;
        Ok(out.flush()?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to tell if even this cannot be written.
        let _ = write!(io::stdout(), "\x1b[?25h\x1b[?1049l").and_then(|()| io::stdout().flush());
    }
}
