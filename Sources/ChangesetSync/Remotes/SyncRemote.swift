import StorePlatform

/// A place where the replicas of one repository exchange objects: a folder, a database.
///
/// A remote keeps two things: **objects**, each under its identifier, and for each author a **log**: the identifiers of
/// what it has pushed, numbered from 1 without gaps. Objects are encrypted before they come here (`RepositoryKey`), so a
/// remote decides nothing, and nothing that it returns is trusted.
///
/// Every call may be repeated after a failure, a cancellation or a crash, and then does what is left to do.
public protocol SyncRemote: Sendable {
    /// Where it is, for messages: `dir:/mnt/share`. Never with credentials.
    var name: String { get }
    /// The repository whose objects it keeps.
    var repository: RepositoryID { get }

    /// Stores objects, in their order, durably: an entry of a log is written when its object is durable.
    ///
    /// An object with a position is entered in that log whether it was there before or not: two replicas may push the
    /// same merge. The parts of a long commit have no position, and come before it.
    ///
    /// - Returns: What became of each object. A collision is the last result: what follows it was not stored, or is in
    ///   no log.
    /// - Throws: ``RemoteError`` `remoteRewound` where the log of the author does not reach up to the first position:
    ///   what was acknowledged is gone. `otherRepository`, `payloadTooLarge`, `invalidPosition`, before anything is
    ///   written. `CancellationError` between two objects.
    func put(_ objects: [RemoteObject]) async throws -> [PutResult]

    /// Lists what is in the logs after a cursor.
    ///
    /// It may list an entry again, and never skips one: where the next entry of an author or its object is missing, the
    /// part of that author ends there for now (``RemotePage/stalled``).
    ///
    /// - Parameter limit: The most entries, 1 at least; a remote may have a lower limit.
    /// - Throws: ``RemoteError`` `remoteRewound` where an entry up to the cursor is gone.
    func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage

    /// Reads objects.
    ///
    /// - Returns: Those that are there, in the order of `ids` and without a position, with the bytes as they are: nobody
    ///   has checked them. An object longer than any envelope is truncated, so that it is refused when it is opened.
    func get(_ ids: [ObjectID]) async throws -> [RemoteObject]

    /// Emits when something may be new; nil where the remote cannot notify. It may emit for nothing, and may miss changes.
    func watch() -> AsyncStream<Void>?

    /// What the remote can do for checkpoints; nil where it keeps all history for ever.
    var compaction: (any RemoteCompaction)? { get }
}

extension SyncRemote {
    public func watch() -> AsyncStream<Void>? { nil }
    public var compaction: (any RemoteCompaction)? { nil }
}

/// The part of a remote that lets replicas agree what may be removed. Like all else it is encrypted, and decides nothing.
public protocol RemoteCompaction: Sendable {
    /// Replaces what the author has in its place, durably. Nobody else writes there.
    func acknowledge(_ acknowledgement: RemoteAcknowledgement) async throws

    /// What all authors have there, with the bytes as they are: nobody has checked them.
    func acknowledgements() async throws -> [RemoteAcknowledgement]

    /// Removes what a checkpoint has replaced. It may be repeated, and then removes what is left.
    ///
    /// - Parameters:
    ///   - objects: Objects that are in no log.
    ///   - cursor: For each log the last entry that is replaced. That entry stays, so that the log is seen to go on; what
    ///     is before it is removed, and the objects of all of them.
    ///   - needed: Objects that stay, because another entry has them.
    func delete(_ objects: [ObjectID], through cursor: RemoteCursor, except needed: Set<ObjectID>) async throws
}

/// The acknowledgement of one replica, as it is sent to a remote or comes from it.
public struct RemoteAcknowledgement: Hashable, Sendable {
    public let author: AuthorPseudonym
    /// The envelope.
    public let bytes: [UInt8]

    public init(author: AuthorPseudonym, bytes: [UInt8]) {
        self.author = author
        self.bytes = bytes
    }
}

/// A place in the log of an author.
public struct LogPosition: Hashable, Sendable {
    /// Who has pushed, which need not be who wrote the commit.
    public let author: AuthorPseudonym
    /// From 1, without gaps.
    public let sequence: UInt64

    public init(author: AuthorPseudonym, sequence: UInt64) {
        self.author = author
        self.sequence = sequence
    }
}

/// An object as it is sent to a remote, or comes from it.
public struct RemoteObject: Hashable, Sendable {
    public let repository: RepositoryID
    public let id: ObjectID
    /// Where it is entered in a log; nil for a part of a commit, and for what ``SyncRemote/get(_:)`` returns.
    public let position: LogPosition?
    /// The envelope.
    public let bytes: [UInt8]

    public init(repository: RepositoryID, id: ObjectID, position: LogPosition?, bytes: [UInt8]) {
        self.repository = repository
        self.id = id
        self.position = position
        self.bytes = bytes
    }
}

/// What became of an object that was put.
public enum PutResult: Hashable, Sendable {
    /// It was not there, and is now.
    case stored
    /// It was there with the same bytes.
    case alreadyPresent
    /// Something else is in its place. Nothing was changed.
    case collision(Collision)

    public enum Collision: Hashable, Sendable {
        /// Another content under the identifier: a damaged or forged object, or a replica with another program.
        case object
        /// Another object at the position: two replicas push under one name, as a copy of a store does that did not get a
        /// name of its own.
        case position
    }
}

/// One entry of a log.
public struct RemoteEntry: Hashable, Sendable {
    public let id: ObjectID
    public let position: LogPosition

    public init(id: ObjectID, position: LogPosition) {
        self.id = id
        self.position = position
    }
}

/// A part of the logs of a remote.
public struct RemotePage: Hashable, Sendable {
    /// In the order of each author's log.
    public let entries: [RemoteEntry]
    /// The cursor for the next page: after all ``entries``.
    public let next: RemoteCursor
    /// Whether more can be listed now.
    public let hasMore: Bool
    /// Authors whose logs go on and cannot be read on for now.
    public let stalled: [RemoteStall]

    public init(entries: [RemoteEntry], next: RemoteCursor, hasMore: Bool, stalled: [RemoteStall]) {
        self.entries = entries
        self.next = next
        self.hasMore = hasMore
        self.stalled = stalled
    }
}

/// An entry that is missing, though later ones are there or it must be there.
///
/// On a folder that is synced it is still on its way. Where it stays, its author has to push it again.
public struct RemoteStall: Hashable, Sendable {
    public enum Reason: Hashable, Sendable {
        /// There is no such entry, and there are later ones.
        case entryMissing
        /// The entry is not a whole identifier, or something else is in its place, or in that of its object.
        case entryDamaged
        /// The entry is there, its object is not.
        case objectMissing(ObjectID)
    }

    public let position: LogPosition
    public let reason: Reason

    public init(position: LogPosition, reason: Reason) {
        self.position = position
        self.reason = reason
    }
}

/// Why a remote could not be used. Nothing was lost: the call may be repeated when the cause is removed.
public enum RemoteError: Error, Hashable, Sendable {
    /// An entry that this replica has seen, or has written, is gone, or the object of its own last one.
    case remoteRewound(remote: String, missing: LogPosition)
    /// The remote has other repositories and not this one, or an object is of another repository.
    case otherRepository(remote: String, found: [RepositoryID])
    /// An object is longer than any envelope.
    case payloadTooLarge(ObjectID, byteCount: Int, limit: Int)
    /// The positions of one author do not follow each other from 1 on.
    case invalidPosition(LogPosition)
    /// A newer version of this library has made the remote.
    case unknownVersion(remote: String, version: String)
    /// What should be a folder of the remote is a symbolic link or a file.
    case foreignEntry(remote: String, path: String)
    /// The filesystem has neither hard links nor a renaming that never replaces.
    case unsupportedFilesystem(remote: String, SystemError)
    /// The remote cannot be reached, read or written.
    case unavailable(remote: String, SystemError)
}

extension RemoteError {
    /// What every remote refuses before it writes anything.
    package static func check(
        _ objects: [RemoteObject], of repository: RepositoryID, at remote: String
    ) throws(RemoteError) {
        var last: [AuthorPseudonym: UInt64] = [:]
        for object in objects {
            guard object.repository == repository else {
                throw otherRepository(remote: remote, found: [object.repository])
            }
            guard object.bytes.count <= Limits.envelopeBytes else {
                throw payloadTooLarge(object.id, byteCount: object.bytes.count, limit: Limits.envelopeBytes)
            }
            guard let position = object.position else { continue }
            let expected = last[position.author].map { $0 == .max ? $0 : $0 + 1 } ?? position.sequence
            guard position.sequence > 0, position.sequence == expected else { throw invalidPosition(position) }
            last[position.author] = position.sequence
        }
    }
}

extension RemoteError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .remoteRewound(let remote, let missing):
            "remoteRewound: Entry \(missing.sequence) of author \(missing.author) at \(remote) or its object is gone. The "
                + "remote was emptied, restored from a backup, or replaced. Verify that it is the right one. Then "
                + "each replica has to be reset for it, and pushes again what it lacks."
        case .otherRepository(let remote, let found):
            "otherRepository: \(remote) does not have this repository, but "
                + found.map(\.description).joined(separator: ", ")
                + ". Check the address of the remote. A folder or a database is for one repository, unless the program "
                + "that opens it says that others share it."
        case .payloadTooLarge(let id, let byteCount, let limit):
            "payloadTooLarge: Object \(id) has \(byteCount) bytes, the limit is \(limit). Objects are divided before they "
                + "are put: this is a defect of the program that made it."
        case .invalidPosition(let position):
            "invalidPosition: Position \(position.sequence) of author \(position.author) does not follow the one before. "
                + "Nothing was written. This is a defect of the program that numbered it."
        case .unknownVersion(let remote, let version):
            "unknownVersion: \(remote) has the format \"\(version)\", which this version of CipherStore does not know. A "
                + "newer version made it. Update this program."
        case .foreignEntry(let remote, let path):
            "foreignEntry: \"\(path)\" at \(remote) is a symbolic link or a file where a folder is needed; it is not "
                + "followed. Remove it."
        case .unsupportedFilesystem(let remote, let error):
            "unsupportedFilesystem: \(remote) is on a filesystem without hard links that cannot rename without replacing "
                + "either (\(error)). Two writers could overwrite each other there. Use another filesystem."
        case .unavailable(let remote, let error):
            "unavailable: \(remote) cannot be used: \(error). Nothing is lost; try again when the cause is removed."
        }
    }
}
