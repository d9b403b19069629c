import CipherStore
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// The WAL that a salvage reads: the one that was given, else that of the store.
struct SalvagedWAL {
    /// Nil where no WAL is read.
    let file: RawFile?
    /// Whether the database file may be of another moment than the WAL.
    let isMixed: Bool
    /// A note about the WAL; nil for none.
    let note: String?
    /// Commits that could not be read, if the damage of the WAL has no frames behind it.
    private let loss: WALContent.Loss?

    /// - Parameters:
    ///   - path: The database.
    ///   - given: The WAL to read in the place of the store's own; nil for that.
    /// - Throws: ``ToolError`` `noSuchFile`, `notRegular`, `foreignWAL`; `SystemError`, `PageFormatError`.
    init(_ path: String, given: String?, _ key: PageKey) throws {
        if let given {
            self = try Self.given(given, path, key)
        } else {
            self = try Self.own(path, key)
        }
    }

    private init(file: RawFile?, isMixed: Bool, note: String? = nil, loss: WALContent.Loss?) {
        (self.file, self.isMixed, self.note, self.loss) = (file, isMixed, note, loss)
    }

    private static func own(_ path: String, _ key: PageKey) throws -> SalvagedWAL {
        guard let file = try AuthenticPages.openWAL(of: path) else {
            return SalvagedWAL(file: nil, isMixed: false, loss: nil)
        }
        let loss = try WALContent.loss(of: path, key)
        switch loss {
        case .otherKey:
            return SalvagedWAL(file: nil, isMixed: false, loss: loss)
        case .otherState(let log, let inFile) where inFile > log.upperBound:
            let reading =
                ". It is the older of the two and was not read; `--wal \(ShellWord.path(StorePaths(path).wal))` reads it"
            return SalvagedWAL(file: nil, isMixed: false, note: (loss?.note ?? "") + reading, loss: nil)
        case .otherState:
            return SalvagedWAL(file: file, isMixed: true, note: loss?.note, loss: nil)
        case .allContent, .afterFrame, .lastCommit, .fromFrame, .unknownVersion, .changedHeader, nil:
            return SalvagedWAL(file: file, isMixed: false, loss: loss)
        }
    }

    private static func given(_ wal: String, _ path: String, _ key: PageKey) throws -> SalvagedWAL {
        guard let kind = try Files.kind(wal) else {
            throw ToolError.noFile(
                wal, why: "The path of --wal does not exist.", remedy: "Check the path; nothing was created.")
        }
        guard kind == .regular else {
            throw ToolError(
                .notRegular, what: "\"\(wal)\" is no WAL.", why: "It is not a regular file.",
                remedy: "Check the path; nothing was created.")
        }
        let file = try RawFile(wal: wal)
        guard try WALFrames.headerOfRun(file, key) != nil else { throw foreign(wal, path) }
        let loss = try WALContent(file: wal).loss(of: path, key)
        let isOwn = try hasSameBytes(wal, StorePaths(path).wal)
        var note =
            isOwn
            ? nil : "rows may be of different commits: the database may have been written since the WAL was copied"
        if case .otherState = loss { note = loss?.note }
        return SalvagedWAL(file: file, isMixed: !isOwn || loss?.isOfOtherState == true, note: note, loss: loss)
    }

    /// Whether somebody has changed the header of page 1 in it, and so perhaps the number of pages.
    var hasChangedHeader: Bool { if case .changedHeader = loss { true } else { false } }

    /// Whether two files have the same bytes, as a copy of the WAL has while nothing was written since.
    private static func hasSameBytes(_ one: String, _ other: String) throws -> Bool {
        guard try Files.kind(other) == .regular else { return false }
        if try Files.identity(one) == Files.identity(other) { return true }
        let first = OpenFile(try FileDescriptor(opening: one, .readOnly, mustBeRegular: true))
        let second = OpenFile(try FileDescriptor(opening: other, .readOnly, mustBeRegular: true))
        return try first.hasSameBytes(as: second, pieceBytes: ToolLimits.copiedBytes)
    }

    /// The commits that could not be read, as a sentence without its full stop; nil where none are missed.
    func lostCommits(_ pages: AuthenticPages) -> String? {
        guard let reading = pages.readingPastDamage else { return loss?.note }
        if reading.isComplete { return nil }
        let frames = reading.lostFrames.prefix(ToolLimits.namedFrames).map(String.init).joined(separator: ", ")
        let more = reading.lostFrames.count > ToolLimits.namedFrames ? " and others" : ""
        return "the WAL is damaged in frames \(frames)\(more): of the commits behind the damage "
            + "\(CountText.text(reading.wholeCommits, "was", "were")) read whole and "
            + "\(CountText.text(reading.partialCommits, "was", "were")) read in part. Rows may be of different commits"
    }

    private static func foreign(_ wal: String, _ path: String) -> ToolError {
        ToolError(
            .foreignWAL, what: "\"\(wal)\" is not a WAL of \"\(path)\".",
            why:
                "No page in it is authentic under the key of the store's sidecar. It belongs to another store, or is from "
                + "before a rotation.",
            remedy:
                "Give a WAL of this store. One from before a rotation is read with a backup of that time: `cipherctl "
                + "salvage BACKUP NEW --wal \(ShellWord.path(wal))`. Nothing was created.")
    }
}

extension WALContent.Loss {
    /// Whether WAL and file are of different states.
    fileprivate var isOfOtherState: Bool { if case .otherState = self { true } else { false } }
}
