/// The length of a database file, and the rule that compares it with the number of pages.
///
/// The last commit in the WAL states how many pages a database has, or its header where the WAL has no commit. Each page
/// is in the file or in the WAL. Without a commit the file has exactly these pages: one that is longer has a header that
/// counts too few, and writes would overwrite the others. After a commit it may be longer, until a checkpoint truncates
/// it.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#in_header_database_size>
package struct DatabaseLength: Hashable, Sendable {
    package let fileBytes: Int
    package let pageBytes: Int

    package init(fileBytes: Int, pageBytes: Int) {
        self.fileBytes = fileBytes
        self.pageBytes = pageBytes
    }

    /// Pages of which the file has every byte.
    package var wholePages: Int { fileBytes / pageBytes }

    /// Pages of which the file has a byte at least.
    package var startedPages: Int { (fileBytes + pageBytes - 1) / pageBytes }

    /// The finding of a comparison of the number of pages with the length of the file.
    package enum Verdict: Hashable, Sendable {
        /// Each page is in the file or in the WAL, and the file has no others that no commit explains.
        case fits
        /// The file has more bytes than its header counts, and the WAL has no commit.
        case pageCountLowered
        /// So many pages are neither in the file nor in the WAL.
        case pagesMissing(Int)
    }

    /// Compares the length with a number of pages.
    ///
    /// - Parameters:
    ///   - pages: The number of pages according to the last commit in the WAL, or to the header where it has none. A wrong
    ///     header may count billions.
    ///   - committed: The pages in the committed frames of the WAL; nil where it has no commit. It is asked for only
    ///     where the file has another length.
    package func verdict(pages: Int, committed: () throws -> Set<UInt32>?) rethrows -> Verdict {
        if pages * pageBytes == fileBytes { return .fits }
        let committed = try committed()
        if committed == nil, pages * pageBytes < fileBytes { return .pageCountLowered }
        let missing = max(0, pages - wholePages)
        let found = committed?.count { Int($0) > wholePages && Int($0) <= pages } ?? 0
        return missing > found ? .pagesMissing(missing - found) : .fits
    }

    /// Whether a file without a WAL has exactly so many pages.
    package func isExactly(pages: Int) -> Bool { verdict(pages: pages) { nil } == .fits }
}
