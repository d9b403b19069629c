import CipherStore

/// A backup in a repository, as its record says. Nothing of it is authenticated before a key opens it.
public struct StoredBackup: Hashable, Sendable {
    /// The SHA-256 of its record.
    public let id: ObjectHash
    /// Whether another user may have written its record: neither this user, root nor the owner of the repository has, as far
    /// as the system shows.
    ///
    /// Without a key such a record is neither counted nor removed by a prune, and is chosen by its identifier alone.
    public let isUnproven: Bool
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
        /// An object that is no record, or cannot be read.
        struct Damage {
            /// The name of the object.
            let name: String
            /// The fault, as the end of a sentence.
            let why: String
            /// Whether a newer version has written it.
            var isAhead = false
            /// Whether another user may have written it.
            let isUnproven: Bool
        }

        var backups: [StoredBackup] = []
        var damaged: [Damage] = []
    }

    func records() throws -> Records {
        var found = Records()
        let names = try place.list(ObjectKind.backup.rawValue + "/").map(\.name)
        let files = try place.map(names) { try place.attributed($0, limitBytes: BackupLimits.recordBytes) }
        for (name, file) in zip(names, files) {
            guard let file else { continue }
            do {
                guard let hash = ObjectKind.backup.hash(ofName: name) else {
                    throw FormatFault("has a name that no record has")
                }
                guard let bytes = file.bytes else { throw FormatFault("may not be read by this user") }
                guard try ObjectHash(of: bytes) == hash else { throw FormatFault("was changed") }
                found.backups.append(
                    StoredBackup(
                        id: hash, isUnproven: file.isUnproven, record: try BackupRecord.parse(bytes), bytes: bytes))
            } catch let fault as FormatFault {
                found.damaged.append(
                    .init(
                        name: name, why: fault.description, isAhead: fault.isAhead,
                        isUnproven: file.isUnproven))
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
        for damage in found.damaged {
            onDamage("The object \(damage.name) of \"\(place.description)\" \(damage.why).")
        }
        return found.backups
    }

    /// Finds one backup.
    ///
    /// Without an identifier, a backup whose record another user may have written is left out: see
    /// ``StoredBackup/isUnproven``.
    ///
    /// - Parameters:
    ///   - identifier: The first digits of its identifier, at least four; nil for the newest.
    ///   - time: The latest time of the backup, in seconds since 1970.
    ///   - onNotice: Called with a sentence if a later backup was left out.
    /// - Throws: `StoreError` `noSuchStore` where there is none, `alreadyExists` where the choice is not clear.
    public func backup(
        _ identifier: String? = nil, notAfter time: UInt64? = nil, onNotice: (String) -> Void = { _ in }
    ) throws -> StoredBackup {
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
        let unproven = identifier == nil ? found.filter(\.isUnproven) : []
        if identifier == nil { found.removeAll(where: \.isUnproven) }
        guard Set(found.map(\.storeID)).count <= 1 else {
            throw unclear("It has backups of several stores.", "Name the backup by its identifier (--backup).")
        }
        // Of the time, not of the order: after a clock was set back, an earlier backup may be of a later time.
        func precedes(_ one: StoredBackup, _ other: StoredBackup) -> Bool {
            time == nil ? one.precedes(other) : (one.created, one.sequence) < (other.created, other.sequence)
        }
        guard let last = found.max(by: precedes) else {
            if unproven.isEmpty { throw notFound("No backup in it matches.") }
            throw notFound(
                "\(CountText.text(unproven.count, "backup")) in it that would match may be of another user, who needs no key "
                    + "for that.",
                remedy: "Name one by its identifier (--backup): the key then shows whether it is genuine.")
        }
        let left = unproven.filter { $0.storeID == last.storeID && precedes(last, $0) }
        if !left.isEmpty {
            onNotice(
                "The backup \(last.shortID) was chosen. Later records were left out, because another user may have "
                    + "written them without a key: \(Self.names(left)). Name one by its identifier to use it.")
        }
        return last
    }

    /// Names some backups in a sentence.
    static func names(_ backups: [StoredBackup]) -> String {
        let more = backups.count > 3 ? " and \(backups.count - 3) more" : ""
        return backups.suffix(3).map(\.shortID).joined(separator: ", ") + more
    }

    private func notFound(_ why: String, remedy: String = "") -> StoreError {
        StoreError(
            .noSuchStore, what: "There is no such backup in \"\(place.description)\".", why: why,
            remedy: (remedy.isEmpty ? "" : remedy + " ")
                + "See `cipherctl backup list \(ShellWord.path(place.description))`.")
    }

    private func unclear(_ why: String, _ remedy: String) -> StoreError {
        StoreError(
            .alreadyExists, what: "It is not clear which backup of \"\(place.description)\" is meant.", why: why,
            remedy: "\(remedy) See `cipherctl backup list \(ShellWord.path(place.description))`.")
    }
}
