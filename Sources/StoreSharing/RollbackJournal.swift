import StorePlatform

/// The rollback journal beside a database.
///
/// SQLite plays it back into the database, which it cuts off to the length that the journal names. If the journal names a
/// further file, SQLite removes that.
/// - SeeAlso: <https://www.sqlite.org/fileformat2.html#the_rollback_journal>,
///   <https://www.sqlite.org/atomiccommit.html#_multi_file_commit>
package struct RollbackJournal {
    private static let magic: [UInt8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]

    private let path: String
    /// Its first bytes, at most 28.
    private let header: [UInt8]
    /// Its last bytes, at most 16: the length of a name, its checksum, and the magic number.
    private let trailer: [UInt8]

    /// - Returns: nil where none is there that SQLite would play back.
    /// - Throws: ``SystemError``.
    package init?(beside database: String) throws {
        path = StorePaths(database).journal
        guard try Files.kindOfName(path) == .regular, let bytes = try Files.byteCount(path), bytes > 0 else {
            return nil
        }
        let file = try FileDescriptor(opening: path, .readOnly, followsLinks: false)
        header = try file.read(at: 0, byteCount: 28)
        trailer = try file.read(at: max(0, bytes - 16), byteCount: 16)
        // SQLite overwrites the first bytes of a journal that it keeps.
        if header.first == 0 { return nil }
    }

    /// Whether it is that of the first transaction of a database, which had no pages before.
    package var beganEmpty: Bool {
        header.count == 28 && header.starts(with: Self.magic) && header[16..<20].allSatisfy { $0 == 0 }
    }

    /// Whether it names a file that SQLite removes after it.
    private var namesFile: Bool { trailer.count == 16 && trailer.suffix(8) == Self.magic[...] }

    /// Refuses a journal that another user can have made, and one that names a further file.
    ///
    /// - Throws: ``StoreError`` `journalUntrusted`; ``SystemError``.
    package func requireTrusted() throws {
        if namesFile {
            throw refusal(
                "It names a further file, which SQLite would remove.",
                "Find out which program wrote it. If it changed several databases at once, open them with that program."
            )
        }
        let folder = try OpenFolder(opening: Files.directory(of: path)).status()
        if folder.permissions & 0o022 != 0 || ![0, ProcessInspector.effectiveUser].contains(folder.owner) {
            throw refusal(
                "Other users may write the folder, and SQLite would overwrite the database by it.",
                "If a program was killed while it wrote this database without WAL, copy the database, the journal and, for a "
                    + "store, both copies of its sidecar to a folder that only you may write, and run the command there. Else "
                    + "move the journal away.")
        }
    }

    private func refusal(_ why: String, _ remedy: String) -> StoreError {
        StoreError(
            .journalUntrusted, what: "\"\(path)\" is not played back.", why: why,
            remedy: remedy + " Nothing was changed.")
    }
}
