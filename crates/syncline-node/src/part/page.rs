//! Pages of the console, and the files they need.

use rust_embed::{EmbeddedFile, RustEmbed};

/// Where a part's pages and their files are: embedded in the program, from disk in debug builds.
pub type Files = fn(&str) -> Option<EmbeddedFile>;

/// A page of the console.
#[derive(Clone)]
pub struct Page {
    pub(crate) path: &'static str,
    pub(crate) file: &'static str,
    pub(crate) files: Files,
    /// The word for it in the menu; a page without one is reached from elsewhere.
    pub(crate) menu: Option<&'static str>,
    /// Whether its entry comes after those of the other systems.
    pub(crate) menu_last: bool,
    /// Origins beside our own from which it shows images.
    pub(crate) image_origins: Vec<String>,
    /// Whether our own pages may put it into a frame.
    pub(crate) framed: bool,
}

impl Page {
    /// A page at `path`, whose file is called `file` in the folder `F`.
    pub fn new<F: RustEmbed>(path: &'static str, file: &'static str) -> Page {
        Page {
            path,
            file,
            files: F::get,
            menu: None,
            menu_last: false,
            image_origins: Vec::new(),
            framed: false,
        }
    }

    /// The page with an entry in the menu.
    #[must_use]
    pub fn in_menu(self, word: &'static str) -> Page {
        Page { menu: Some(word), ..self }
    }

    /// The page with an entry behind those of the other systems: a part that others need is built before them.
    #[must_use]
    pub fn in_menu_last(self, word: &'static str) -> Page {
        Page { menu_last: true, ..self.in_menu(word) }
    }

    /// The page, allowed to show images from elsewhere.
    #[must_use]
    pub fn with_images_from(self, origins: Vec<String>) -> Page {
        Page { image_origins: origins, ..self }
    }

    /// The page, allowed in a frame of our own pages.
    #[must_use]
    pub fn in_frames(self) -> Page {
        Page { framed: true, ..self }
    }
}
