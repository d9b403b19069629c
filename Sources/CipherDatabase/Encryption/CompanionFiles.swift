import PageFormat
import StorePlatform
import StoreSharing

/// The files that SQLite keeps beside a database: another user of the folder can give their names to other files, which
/// SQLite would read, overwrite or empty.
///
/// | what | checked |
/// |---|---|
/// | kind, owner and names | before each connection is opened, and when it has read: SQLite opens and makes them by name |
/// | content of the WAL | before the first connection of an opening |
/// | content of its index | by the descriptor that SQLite opens (``SystemOpening``) |
///
/// Nothing here opens the index: closing it would drop the locks of this process.
package struct CompanionFiles: Sendable {
    private let paths: StorePaths

    package init(_ paths: StorePaths) { self.paths = paths }

    /// Refuses all that is no file of the database, by its kind, its owner, its names and its content.
    ///
    /// - Throws: ``StoreError`` `hardLinked`, `alreadyExists`.
    func requireUsable() throws(StoreError) {
        if let fault = faults(readsContent: true).first { throw fault }
    }

    /// The same without their content.
    func requireOwn() throws(StoreError) {
        if let fault = faults(readsContent: false).first { throw fault }
    }

    /// The faults of the regular files that keep a connection from being opened, that of the index too.
    package func faults() -> [StoreError] {
        faults(readsContent: true, ofOddKind: false) + [indexFault].compactMap(\.self)
    }

    private func faults(readsContent: Bool, ofOddKind: Bool = true) -> [StoreError] {
        let database = (try? Files.status(of: paths.database)) ?? nil
        return [paths.wal, paths.sharedMemory, paths.journal].compactMap { path in
            guard let status = (try? Files.ownStatus(of: path)) ?? nil else { return nil }
            if let kind = status.oddKind { return ofOddKind ? Self.odd(path, kind) : nil }
            // A restoration gives all files a second name for a moment. A store with one is refused for its database.
            if status.linkCount > 1, database.map({ $0.linkCount <= 1 }) ?? true { return linked(path, status) }
            // SQLite would take its content for that of the database.
            if let owner = FileAccess.otherUser(owning: status, beside: paths.database) {
                return Self.others(path, owner)
            }
            if readsContent, path == paths.wal, !isWALFile(status) { return Self.foreign(path, "the WAL") }
            return nil
        }
    }

    // MARK: Content

    /// Whether the file can be a WAL. A damaged header has the magic number or the version; a crash of the machine leaves
    /// zeros throughout; where the beginning is lost, frames follow.
    private func isWALFile(_ status: FileStatus) -> Bool {
        guard status.byteCount > 0 else { return true }
        // A WAL has no locks that a close would drop.
        guard let file = try? FileDescriptor(opening: paths.wal, .readOnly, followsLinks: false),
            let head = try? file.read(at: 0, byteCount: WALHeader.headerBytes)
        else { return true }
        let magic = Self.number(head, at: WALHeader.Offset.magic)
        return magic & ~1 == WALHeader.magic
            || Self.number(head, at: WALHeader.Offset.formatVersion) == WALHeader.formatVersion
            || Self.hasFrames(file, status.byteCount, after: 0) || hasLostBeginning(file, head, status)
    }

    /// Whether the file begins with zeros, and has nothing else or frames after them.
    private func hasLostBeginning(
        _ file: borrowing FileDescriptor, _ head: [UInt8], _ status: FileStatus
    ) -> Bool {
        guard head.allSatisfy({ $0 == 0 }) else { return false }
        switch try? LeadingZeros(of: file, limitBytes: DatabaseLimits.searchedZeroBytes) {
        case nil, .throughout: return true
        case .upTo(let offset): return Self.hasFrames(file, status.byteCount, after: offset)
        case .unknown: return false
        }
    }

    /// Whether a frame near a position has the salts of the next one, for any page size, or is the only one.
    ///
    /// Bytes that repeat have equal salts as well, but no two frames have the same checksum.
    private static func hasFrames(_ file: borrowing FileDescriptor, _ byteCount: Int, after position: Int) -> Bool {
        func frame(_ index: Int, pageBytes: Int) -> WALFrameHeader? {
            let offset = WALHeader.headerBytes + index * (WALFrameHeader.headerBytes + pageBytes)
            let bytes = try? file.read(at: offset, byteCount: WALFrameHeader.headerBytes)
            return bytes.flatMap { $0.withUnsafeBytes { WALFrameHeader($0) } }.flatMap { $0.pageNumber > 0 ? $0 : nil }
        }
        var pageBytes = PageLayout.smallestPageBytes
        while pageBytes <= PageLayout.largestPageBytes {
            let first = max(0, position - WALHeader.headerBytes) / (WALFrameHeader.headerBytes + pageBytes)
            for index in first..<first + DatabaseLimits.searchedFrames {
                guard let next = frame(index + 1, pageBytes: pageBytes),
                    let former = frame(index, pageBytes: pageBytes)
                else { continue }
                if former.salts == next.salts, former.checksum != next.checksum { return true }
            }
            let isOne = byteCount == WALHeader.headerBytes + WALFrameHeader.headerBytes + pageBytes
            if isOne, let only = frame(0, pageBytes: pageBytes), only.databasePages >= only.pageNumber { return true }
            pageBytes *= 2
        }
        return false
    }

    private static func number(_ bytes: [UInt8], at offset: Int) -> UInt32 {
        guard bytes.count >= offset + 4 else { return 0 }
        return bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// The fault of the index. It stays open.
    private var indexFault: StoreError? {
        guard let status = (try? Files.ownStatus(of: paths.sharedMemory)) ?? nil, status.kind == .regular,
            let file = try? LiveFiles.descriptor(of: paths.sharedMemory)
        else { return nil }
        let content = WALIndexContent(byteCount: status.byteCount) { offset, count in
            var bytes = [UInt8](repeating: 0, count: count)
            guard let filled = try? bytes.withUnsafeMutableBytes({ try file.read(at: offset, into: $0) }) else {
                return nil
            }
            return Array(bytes.prefix(filled))
        } nextData: { offset in
            (try? file.nextData(from: offset)) ?? nil
        }
        return content.isIndex ? nil : Self.foreign(paths.sharedMemory, "the WAL index")
    }

    // MARK: Errors

    private static func odd(_ path: String, _ kind: String) -> StoreError {
        StoreError(
            .alreadyExists, what: "\"\(path)\" is \(kind).", why: "SQLite has a file of its own under that name.",
            remedy: "Find out who put it there, and move it away. Nothing was changed.")
    }

    private static func others(_ path: String, _ owner: UInt32) -> StoreError {
        StoreError(
            .alreadyExists, what: "\"\(path)\" belongs to user \(owner), who may not write the database.",
            why: "SQLite would take its content for that of the database.",
            remedy: "Find out what it is, and move it away. Nothing was changed.")
    }

    private func linked(_ path: String, _ status: FileStatus) -> StoreError {
        StoreError(
            .hardLinked, what: "\"\(path)\" has \(status.linkCount) names.",
            why: "Another hard link names the same file, and SQLite would change it under both."
                + (path == paths.wal && status.byteCount > 0 ? " It may hold commits that are nowhere else." : ""),
            remedy:
                "Remove the other names (`find DIR -samefile \(ShellWord.path(path))` finds them), and keep this one.")
    }

    static func foreign(_ path: String, _ noun: String) -> StoreError {
        StoreError(
            .alreadyExists, what: "\"\(path)\" is not \(noun) of a database.",
            why: "It has the name of one and another content, which SQLite would overwrite.",
            remedy: "Find out what it is and who put it there, and move it away. Nothing was changed.")
    }
}
