//! Saved searches: a set of filters, and the collection of books it found.
//!
//! A search that is saved, saved again or changed is asked for anew: what the library said before does not count. Its
//! collection stays as it was until the new one is there.

use super::presets;
use syncline_books::ndl::{Cap, PageKey, Search};
use syncline_core::queue::{Kind, Place};
use syncline_store::queue::KEY_MAX_BYTES;

use super::calls::PageResult;
use super::{FindsPage, SearchView, Shelf};
use syncline_node::queue::Error;

/// Why a search cannot be saved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Search(#[from] syncline_books::ndl::InvalidSearch),
    #[error("the search is {bytes} bytes long; {max_bytes} are the most")]
    TooLong { bytes: usize, max_bytes: usize },
    #[error(transparent)]
    Queue(#[from] Error),
}

impl From<syncline_store::Error> for Refused {
    fn from(error: syncline_store::Error) -> Refused {
        Refused::Queue(error.into())
    }
}

impl Shelf {
    /// Saves a search and has it looked for.
    pub(crate) async fn save_search(&self, search: &Search) -> Result<SearchView, Refused> {
        let key = checked(search)?;
        let saved = self.0.store.save_search(&key).await?;
        self.refresh(search).await?;
        Ok(SearchView::of(&saved))
    }

    /// Makes a saved search look for something else; `None` if there is none.
    pub(crate) async fn change_search(
        &self,
        id: i64,
        search: &Search,
    ) -> Result<Option<SearchView>, Refused> {
        let key = checked(search)?;
        let Some(changed) = self.0.store.change_search(id, &key).await? else { return Ok(None) };
        self.refresh(search).await?;
        Ok(Some(SearchView::of(&changed)))
    }

    /// All saved searches.
    pub(crate) async fn searches(&self) -> Result<Vec<SearchView>, Error> {
        Ok(self.0.store.searches().await?.iter().map(SearchView::of).collect())
    }

    /// A saved search and a part of its collection.
    pub(crate) async fn collection(
        &self,
        id: i64,
        from: u64,
        limit: usize,
    ) -> Result<Option<FindsPage>, Error> {
        let Some(search) = self.0.store.search(id).await? else { return Ok(None) };
        let finds = self.0.store.finds(id, from, limit).await?;
        Ok(Some(FindsPage::of(&search, &finds, limit)))
    }

    /// Forgets a saved search and its collection, and tells whether there was one.
    pub(crate) async fn remove_search(&self, id: i64) -> Result<bool, Error> {
        Ok(self.0.store.remove_search(id).await?)
    }

    /// Searches that were asked for and did not get into their queue before the node died.
    pub(super) async fn take_up_searches(&self) -> Result<usize, Error> {
        let mut taken = 0;
        for saved in self.0.store.searches().await? {
            let answered = saved.found_at.is_some_and(|found_at| found_at >= saved.asked_at);
            if !answered && self.0.is_idle(presets::NDL_SEARCH.name, &saved.search).await? {
                self.0.queues.enqueue(presets::NDL_SEARCH.name, Kind::Again, &[saved.search]).await?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Has a search made anew: its pages from before are forgotten first, so that none of them is taken for an answer.
    async fn refresh(&self, search: &Search) -> Result<(), Error> {
        let queues = &self.0.queues;
        let (mut pages, mut start_record) = (Vec::new(), 1);
        while pages.len() < Cap::default().pages as usize {
            let key = PageKey { search: search.clone(), start_record }.key();
            let place = queues.entry(presets::FETCH_NDL_SEARCH.name, &key).await?.map(|entry| entry.place);
            pages.push(key);
            let Some(Place::Done(result)) = place else { break };
            let next = serde_json::from_str::<PageResult>(&result).ok().and_then(|page| page.next);
            match next.filter(|next| *next > start_record) {
                Some(next) => start_record = next,
                None => break,
            }
        }
        queues.remove(presets::FETCH_NDL_SEARCH.name, &pages).await?;
        let key = [search.key()];
        let known = queues.entry(presets::NDL_SEARCH.name, &key[0]).await?.is_some();
        let kind = if known { Kind::Again } else { Kind::Priority };
        queues.enqueue(presets::NDL_SEARCH.name, kind, &key).await?;
        Ok(())
    }
}

/// The search as a key, if it and all its pages can be one.
fn checked(search: &Search) -> Result<String, Refused> {
    search.cql()?;
    let bytes = PageKey { search: search.clone(), start_record: u32::MAX }.key().len();
    if bytes > KEY_MAX_BYTES {
        return Err(Refused::TooLong { bytes, max_bytes: KEY_MAX_BYTES });
    }
    Ok(search.key())
}
