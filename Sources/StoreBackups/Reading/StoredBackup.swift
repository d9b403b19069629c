import CipherStore

/// A backup in a repository, as its record says. Nothing of it is authenticated before a key opens it.
public struct StoredBackup: Hashable, Sendable {
    /// The SHA-256 of its record.
    public let id: ObjectHash
    let record: BackupRecord
    let bytes: [UInt8]

    /// The store that was backed up.
    public var storeID: StoreID { record.facts.storeID }
    /// The epoch of the data key under which it opens.
    public var epoch: UInt64 { record.facts.epoch }
    /// When it was made, in seconds since 1970, by the clock of the machine that made it.
    public var created: UInt64 { record.facts.created }
    /// The order of the backups of a store; no clock changes it.
    public var sequence: UInt64 { record.sequence }
    /// The number of pages of the database.
    public var pages: UInt32 { record.facts.pages }
    /// The page size in bytes.
    public var pageBytes: Int { record.facts.pageBytes }
    /// The first digits of its identifier.
    public var shortID: String { String(id.description.prefix(12)) }

    /// Whether it is earlier than another backup of its store.
    func precedes(_ other: StoredBackup) -> Bool {
        (sequence, created) != (other.sequence, other.created)
            ? (sequence, created) < (other.sequence, other.created) : id < other.id
    }
}

extension BackupRepository {
    /// The records of all backups, and the names of those that cannot be read.
    struct Records {
        var backups: [StoredBackup] = []
        /// Names of objects, and why each is no record.
        var damaged: [(name: String, why: String)] = []
        /// Whether one of them was written by a newer version.
        var hasAhead = false
    }

    func records() throws -> Records {
        var found = Records()
        for object in try place.list(ObjectKind.backup.rawValue + "/") {
            guard let hash = ObjectKind.backup.hash(ofName: object.name) else {
                found.damaged.append((object.name, "has a name that no record has"))
                continue
            }
            guard let bytes = try place.get(object.name, limitBytes: BackupLimits.recordBytes) else { continue }
            do {
                guard try ObjectHash(of: bytes) == hash else { throw FormatFault("was changed") }
                found.backups.append(StoredBackup(id: hash, record: try BackupRecord.parse(bytes), bytes: bytes))
            } catch let fault as FormatFault {
                found.hasAhead = found.hasAhead || fault.isAhead
                found.damaged.append((object.name, fault.description))
            }
        }
        found.backups.sort { $0.storeID == $1.storeID ? $0.precedes($1) : "\($0.storeID)" < "\($1.storeID)" }
        found.damaged.sort { $0.name < $1.name }
        return found
    }

    /// The backups that can be read, by store, and each store's in the order in which they were made.
    ///
    /// - Parameter onDamage: Called for each record that cannot be read, with a sentence.
    /// - Throws: `SystemError`.
    public func backups(onDamage: (String) -> Void = { _ in }) throws -> [StoredBackup] {
        let found = try records()
        for (name, why) in found.damaged { onDamage("The object \(name) of \"\(place.description)\" \(why).") }
        return found.backups
    }

    /// Finds one backup.
    ///
    /// - Parameters:
    ///   - identifier: The first digits of its identifier, at least four; nil for the newest.
    ///   - time: The latest time of the backup, in seconds since 1970.
    /// - Throws: `StoreError` `noSuchStore` where there is none, `alreadyExists` where the choice is not clear.
    public func backup(_ identifier: String? = nil, notAfter time: UInt64? = nil) throws -> StoredBackup {
        var found = try backups()
        if let identifier {
            guard identifier.utf8.count >= BackupLimits.identifierDigits else {
                throw notFound("An identifier has at least \(BackupLimits.identifierDigits) digits.")
            }
            found = found.filter { $0.id.description.hasPrefix(identifier.lowercased()) }
            guard found.count <= 1 else {
                throw unclear("Several backups have identifiers that begin so.", "Give more digits.")
            }
        }
        if let time { found = found.filter { $0.created <= time } }
        guard Set(found.map(\.storeID)).count <= 1 else {
            throw unclear("It has backups of several stores.", "Name the backup by its identifier (--backup).")
        }
        // Of the time, not of the order: after a clock was set back, an earlier backup may be of a later time.
        guard
            let last = time == nil
                ? found.last : found.max(by: { ($0.created, $0.sequence) < ($1.created, $1.sequence) })
        else { throw notFound("No backup in it matches.") }
        return last
    }

    private func notFound(_ why: String) -> StoreError {
        StoreError(
            .noSuchStore, what: "There is no such backup in \"\(place.description)\".", why: why,
            remedy: "See `cipherctl backup list \(ShellWord.path(place.description))`.")
    }

    private func unclear(_ why: String, _ remedy: String) -> StoreError {
        StoreError(
            .alreadyExists, what: "It is not clear which backup of \"\(place.description)\" is meant.", why: why,
            remedy: "\(remedy) See `cipherctl backup list \(ShellWord.path(place.description))`.")
    }
}
