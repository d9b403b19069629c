import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// The copies of a damaged WAL beside a store: `<database>-wal-damaged`, then `-wal-damaged-2` and so on.
///
/// SQLite ends a damaged WAL before the damage, and the next commit overwrites all that follows. Commits that follow are
/// authentic, and `salvage` reads them from such a copy.
///
/// | a crash | leaves |
/// |---|---|
/// | while the copy is written | a temporary file, which the next copy removes; the WAL is unchanged |
/// | after the copy has its name | the copy; the next opening finds it, and makes no other one of the same frames |
package struct DamagedWAL {
    private let paths: StorePaths
    private let folder: OpenFolder

    /// - Throws: `SystemError`.
    init(_ paths: StorePaths) throws(SystemError) {
        self.paths = paths
        folder = try OpenFolder(opening: Files.directory(of: paths.database), followsLinks: false)
    }

    /// The paths of the copies that exist, the oldest first. Other entries than files have no copy in them.
    ///
    /// - Throws: `SystemError`.
    package static func copies(of paths: StorePaths) throws -> [String] {
        try DamagedWAL(paths).names().map { paths.damagedWAL + $0 }
    }

    /// Whether a key reads a page of a copy. A file that cannot be read counts as a copy that the key may read.
    package static func mayBeReadable(_ copy: String, _ key: PageKey) -> Bool {
        (try? WALFrames.headerOfRun(RawFile(wal: copy), key) != nil) ?? true
    }

    /// The number of a copy by the end of its name, which follows ``StorePaths/damagedWAL``; nil for another name.
    private static func number(_ ending: Substring) -> Int? {
        if ending.isEmpty { return 1 }
        guard ending.hasPrefix("-"), let number = Int(ending.dropFirst()), number > 1, "-\(number)" == ending else {
            return nil
        }
        return number
    }

    /// The ends of the names of the copies.
    private func names() throws -> [String] {
        let base = Files.name(of: paths.damagedWAL)
        let numbers = try folder.names(limit: .max).compactMap { name in
            name.hasPrefix(base) ? Self.number(name.dropFirst(base.count)) : nil
        }
        return try numbers.sorted().map(Self.ending)
            .filter { try folder.status(of: base + $0)?.kind == .regular }
    }

    private static func ending(_ number: Int) -> String { number == 1 ? "" : "-\(number)" }

    /// Copies the whole WAL, durably, with the attributes of the database. The caller must hold the opening lock.
    ///
    /// - Parameter start: Where the bytes begin that SQLite does not read. A copy that has the same bytes from there on
    ///   suffices: commits since then have overwritten only what was before.
    /// - Returns: The path of the copy, and whether it was made by this call.
    /// - Throws: `SystemError`.
    func keep(from start: Int) throws -> (path: String, isNew: Bool) {
        let wal = try OpenFile(FileDescriptor(opening: paths.wal, .readOnly, followsLinks: false, mustBeRegular: true))
        let base = Files.name(of: paths.damagedWAL)
        let existing = try names()
        for ending in existing.reversed() where try isCopy(base + ending, of: wal, from: start) {
            // Its name may not be durable yet.
            try folder.synchronize()
            return (paths.damagedWAL + ending, false)
        }
        let last = existing.last.flatMap { Self.number($0[...]) } ?? 0
        let temporary = try write(wal, for: base)
        defer { try? folder.remove(temporary) }
        let number = try place(temporary, base, last + 1...last + StoreLimits.triedNames)
        try? folder.remove(temporary)
        try folder.synchronize()
        return (paths.damagedWAL + Self.ending(number), true)
    }

    /// Gives a file the first free name of a copy.
    ///
    /// - Returns: The number of the copy.
    private func place(_ temporary: String, _ base: String, _ numbers: ClosedRange<Int>) throws(SystemError) -> Int {
        var number = numbers.lowerBound
        while true {
            do throws(SystemError) {
                try folder.place(temporary, in: folder, base + Self.ending(number))
                return number
            } catch  where error.isAlreadyThere && number < numbers.upperBound {
                // A link or a folder that another user has put there.
                number += 1
            }
        }
    }

    private func isCopy(_ name: String, of wal: OpenFile, from start: Int) throws -> Bool {
        guard let copy = try folder.file(name) else { return false }
        return try wal.hasSameBytes(as: copy, from: start, pieceBytes: StoreLimits.copiedBytes)
    }

    /// Writes a durable copy under a temporary name.
    ///
    /// - Returns: The name.
    private func write(_ wal: OpenFile, for base: String) throws -> String {
        try AtomicFile.removeLeftovers(of: base, in: folder)
        let digits = String(UInt32.random(in: 0x1000_0000 ... .max), radix: 16)
        let name = "\(base).tmp-\(ProcessInspector.currentProcess)-\(digits)"
        let copy = try folder.newFile(name)
        do {
            try FileAttributes(of: paths.database)?.apply(to: copy)
            let bytes = try wal.status().byteCount
            var offset = 0
            while offset < bytes, let data = try wal.nextData(from: offset), data < bytes {
                let piece = try wal.read(at: data, byteCount: min(StoreLimits.copiedBytes, bytes - data))
                guard !piece.isEmpty else { throw SystemError.inputOutput("read", paths.wal) }
                try copy.write(piece, at: data)
                offset = data + piece.count
            }
            try copy.truncate(toByteCount: bytes)
            try copy.synchronize()
            return name
        } catch {
            try? folder.remove(name)
            throw error
        }
    }
}
