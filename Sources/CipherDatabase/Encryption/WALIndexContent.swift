import PageFormat

/// The content of a file with the name `-shm`, which shows whether it can be the index of a WAL.
///
/// | the two headers have | the file is an index |
/// |---|---|
/// | the version, in one of them at least, and zeros | yes |
/// | zeros, and only zeros follow | if its length is one of an index |
/// | zeros, and page numbers and hash tables follow | the same: SQLite writes the header last when it recovers the WAL |
/// | anything else | no |
struct WALIndexContent {
    let byteCount: Int
    /// Reads from a position; nil where the system refuses.
    let read: (_ offset: Int, _ byteCount: Int) -> [UInt8]?
    /// The first position from an offset on that is in no hole; nil where none follows.
    let nextData: (_ offset: Int) -> Int?

    init(
        byteCount: Int, read: @escaping (_ offset: Int, _ byteCount: Int) -> [UInt8]?,
        nextData: @escaping (_ offset: Int) -> Int?
    ) {
        self.byteCount = byteCount
        self.read = read
        self.nextData = nextData
    }

    /// Whether it can be an index. A file that cannot be read is left to SQLite.
    var isIndex: Bool {
        guard let head = read(0, WALIndex.headerBytes) else { return true }
        guard WALIndex.canBegin(with: head) else { return false }
        return WALIndex.hasVersion(head) || (WALIndex.canHaveLength(byteCount) && hasOnlyRegions)
    }

    private var hasOnlyRegions: Bool {
        var (offset, count) = (0, 0)
        while let data = nextData(offset), data < byteCount {
            let region = data / WALIndex.regionBytes
            guard count < DatabaseLimits.searchedIndexRegions else { return false }
            guard let bytes = read(region * WALIndex.regionBytes, WALIndex.regionBytes) else { return true }
            guard WALIndex.canBeRegion(bytes, isFirst: region == 0) else { return false }
            offset = (region + 1) * WALIndex.regionBytes
            count += 1
        }
        return true
    }
}
