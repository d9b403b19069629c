import CipherStore
import Foundation
import StoreCrypto
import StorePlatform

/// The result of verifying a repository.
public struct RepositoryVerification: Sendable {
    /// A backup that cannot be restored, and why.
    public struct Problem: Hashable, Sendable {
        /// The name of the object at fault.
        public let object: String
        /// The event, as one sentence.
        public let sentence: String
        /// The backups that need the object.
        public let backups: [ObjectHash]
    }

    /// The number of backups.
    public internal(set) var backups = 0
    /// The backups whose records the key has authenticated.
    public internal(set) var authentic = 0
    /// The packs whose pages were read and hashed; of the other ones, only the tables were.
    public internal(set) var packsRead = 0
    /// All packs.
    public internal(set) var packs = 0
    /// The bytes of pages that were read.
    public internal(set) var bytesRead = 0
    /// The bases and the segments of replicas that were verified.
    public internal(set) var bases = 0
    public internal(set) var segments = 0
    public internal(set) var problems: [Problem] = []
    /// The objects that were not verified, because another user may have written them and no key has authenticated them.
    /// Their claims about other objects prove nothing.
    public internal(set) var unproven: [String] = []
}

extension BackupRepository {
    /// Verifies every backup: its record, its map, its sidecar, and the packs of its pages by their hashes. Of replicas it
    /// verifies bases and segments by their hashes, and that none is missing between two.
    ///
    /// With a key, records are authenticated too. Then the pages are those that a holder of the key has stored, each
    /// authenticated at that time, because record, tables and pages form one tree of hashes.
    ///
    /// - Parameters:
    ///   - sample: The share of packs whose pages are read, from 0 to 1; the choice is random. Tables are read of all.
    ///   - source: A key of the stores; nil verifies hashes alone.
    ///   - progress: Called with the packs that are done, and all of them.
    /// - Throws: `StoreError` `wrongKey` where the key opens no backup; `CancellationError`; `SystemError`.
    public func verify(
        sample: Double = 1, unlockedBy source: KeySource? = nil, progress: (Int, Int) -> Void = { _, _ in },
        isCancelled: () -> Bool = { false }
    ) throws -> RepositoryVerification {
        let lock = try place.lockForUse(isWriting: false, isCancelled)
        defer { lock.release() }
        let found = try records()
        var result = RepositoryVerification()
        result.unproven = found.damaged.filter(\.isUnproven).map(\.name)
        result.problems = found.damaged.filter { !$0.isUnproven }.map {
            .init(object: $0.name, sentence: "The object \($0.name) \($0.why).", backups: [])
        }
        var authentic: Set<ObjectHash> = []
        if let source {
            let tried = try authentication(of: found.backups, by: source.read())
            authentic = tried.authentic
            result.authentic = authentic.count
            let unproven = Set(found.backups.filter(\.isUnproven).map { ObjectKind.backup.name($0.id) })
            result.problems += tried.problems.filter { !unproven.contains($0.object) }
            guard result.authentic > 0 || found.backups.isEmpty || !result.problems.isEmpty else {
                throw opensNothing("Give a key of that time, or verify without a key: that compares all hashes.")
            }
        }
        let counted = found.backups.filter { !$0.isUnproven || authentic.contains($0.id) }
        result.unproven += found.backups.filter { $0.isUnproven && !authentic.contains($0.id) }
            .map { ObjectKind.backup.name($0.id) }
        result.backups = counted.count + found.damaged.filter { !$0.isUnproven }.count
        try verifyBlobs(counted, &result, isCancelled)
        var users: [ObjectHash: [StoredBackup]] = [:]
        for backup in counted { for pack in backup.record.packs { users[pack, default: []].append(backup) } }
        var pageBytes = users.mapValues { $0.first?.pageBytes ?? 0 }
        pageBytes.merge(try verifyReplicas(&result, isCancelled)) { one, _ in one }
        result.packs = pageBytes.count
        let wanted = Int((sample * Double(pageBytes.count)).rounded(.up))
        for (number, pack) in pageBytes.keys.shuffled().enumerated() {
            if isCancelled() { throw CancellationError() }
            let uses = users[pack] ?? []
            do {
                result.bytesRead += try verifyPack(
                    pack, pageBytes: pageBytes[pack] ?? 0, readsPages: number < wanted)
                if number < wanted { result.packsRead += 1 }
            } catch let error as StoreError where error.code == .backupDamaged {
                result.problems.append(
                    .init(object: ObjectKind.pack.name(pack), sentence: error.why, backups: uses.map(\.id)))
            }
            progress(number + 1, pageBytes.count)
        }
        return result
    }

    private func verifyBlobs(
        _ backups: [StoredBackup], _ result: inout RepositoryVerification, _ isCancelled: () -> Bool
    ) throws {
        var faults: [ObjectHash: String?] = [:]
        for backup in backups {
            if isCancelled() { throw CancellationError() }
            let (map, sidecar, log) = (backup.record.map, backup.record.sidecar, backup.record.keyLog)
            for hash in [map, sidecar, log] where hash != .none {
                let why: String?
                if let known = faults[hash] {
                    why = known
                } else {
                    why = try fault {
                        if hash == map {
                            _ = try self.map(of: backup.record)
                        } else if hash == sidecar {
                            _ = try self.sidecar(of: backup.record)
                        } else {
                            _ = try object(.blob, hash, limitBytes: BackupLimits.keyLogBytes)
                        }
                    }
                    faults[hash] = .some(why)
                }
                guard let why else { continue }
                result.problems.append(
                    .init(object: ObjectKind.blob.name(hash), sentence: why, backups: [backup.id]))
            }
        }
    }

    private func fault(_ body: () throws -> Void) throws -> String? {
        do {
            try body()
            return nil
        } catch let error as StoreError where error.code == .backupDamaged {
            return error.why
        }
    }

    /// Compares a pack with its table, and its pages with their hashes.
    ///
    /// - Parameter readsPages: Whether its pages are read, or its length alone.
    /// - Returns: The bytes of pages that were read.
    /// - Throws: `StoreError` `backupDamaged`; `SystemError`.
    func verifyPack(_ pack: ObjectHash, pageBytes: Int, readsPages: Bool) throws -> Int {
        let table = try table(pack, pageBytes: pageBytes)
        let name = ObjectKind.pack.name(pack)
        guard readsPages else {
            // The length alone: the last byte, and none after it.
            let end = try place.read(name, at: table.packBytes - 1, byteCount: 2)
            guard end?.count == 1 else { throw damaged("its object \(name) has another length") }
            return 0
        }
        guard let bytes = try place.get(name, limitBytes: table.packBytes), bytes.count == table.packBytes else {
            throw damaged("its object \(name) has another length")
        }
        try bytes.withUnsafeBytes { buffer in
            for slot in 0..<table.count {
                let start = table.offset(ofSlot: slot)
                let page = UnsafeRawBufferPointer(rebasing: buffer[start..<start + pageBytes])
                guard try table.holds(page, slot) else {
                    throw damaged("page \(table.pageNumber(slot)) in its object \(name) was changed")
                }
            }
        }
        return table.count * pageBytes
    }
}
