import CipherStore
import ObjectStorage
import StoreCrypto

/// A place that keeps many backups of many stores; equal pages of one store are kept once.
///
/// Pages stay encrypted as they are in the store. A backup opens with the keys that the store had at its time. Docs/Backup.md
/// describes the use, Docs/Formats/BackupRepository.md the objects.
///
/// ```swift
/// let repository = try BackupRepository(creatingAt: "/backup")
/// try repository.backUp(store)
/// if let newest = try repository.backups().last {
///     try repository.restore(newest, to: path, unlockedBy: .keyFile(path: "app.key"))
/// }
/// ```
public struct BackupRepository: Sendable {
    package let place: any BackupPlace

    /// Opens a repository in a folder.
    ///
    /// - Throws: `StoreError` `noSuchStore` where there is none, `sidecarAhead` for one of a newer version, `storeName` where
    ///   another user has put a symbolic link into the path, `backupDamaged`; `SystemError`.
    public init(openingAt path: String) throws {
        let place: FolderPlace
        do {
            place = try FolderPlace(verifying: path)
        } catch let error as SystemError where error.isNotFound {
            throw Self.noRepository(at: Files.absolute(path), "The folder does not exist.")
        }
        try self.init(opening: place)
    }

    /// Creates a repository in an empty folder, or opens the one that is there.
    ///
    /// Its files are their owner's alone, and for the group of the folder to read if the group may write the folder.
    ///
    /// - Throws: `StoreError` `alreadyExists` where the folder has other files, and as ``init(openingAt:)``. The folder
    ///   must exist.
    public init(creatingAt path: String) throws {
        let place = try FolderPlace(verifying: path)
        if try place.get(ObjectKind.formatName, limitBytes: 1) == nil {
            let own = Set(ObjectKind.allCases.map(\.rawValue) + [FolderPlace.lockName, "tmp", "lost+found"])
            let others = try place.names(limit: BackupLimits.objects)
                .filter { !own.contains($0) && !$0.hasPrefix(".new-") }
            if let other = others.min() { throw Self.occupied(place, "The folder has other files, such as", other) }
            _ = try place.put(ObjectKind.formatName, ObjectKind.formatContent)
        }
        try self.init(opening: place)
    }

    /// Creates a repository at a server where there is no other object, or opens the one that is there.
    ///
    /// - Throws: As ``init(creatingAt:)``.
    package init(creatingIn place: ObjectPlace) throws {
        if try place.get(ObjectKind.formatName, limitBytes: 1) == nil {
            if let other = try place.foreignName() {
                throw Self.occupied(place, "It has other objects, such as", other)
            }
            _ = try place.put(ObjectKind.formatName, ObjectKind.formatContent)
        }
        try self.init(opening: place)
    }

    private static func occupied(_ place: any BackupPlace, _ why: String, _ other: String) -> StoreError {
        StoreError(
            .alreadyExists, what: "\"\(place.description)\" is no place for a new backup repository.",
            why: "\(why) \"\(other)\".", remedy: "Name an empty place, or one that is a repository already.")
    }

    package init(opening place: any BackupPlace) throws {
        self.place = place
        guard let format = try place.get(ObjectKind.formatName, limitBytes: 256) else {
            throw Self.noRepository(at: place.description, "The place has no object that names its version.")
        }
        guard format != ObjectKind.formatContent else { return }
        if format.starts(with: ObjectKind.formatStart) {
            throw StoreError(
                .sidecarAhead, what: "The backup repository \"\(place.description)\" is of another version.",
                why: "This program knows version 1 alone.",
                remedy: "Use the version of the program that made it; nothing was changed.")
        }
        throw StoreError(
            .backupDamaged, what: "The backup repository \"\(place.description)\" is damaged.",
            why: "The object \"\(ObjectKind.formatName)\", which names its version, has other bytes.",
            remedy: "Remove that object. A backup with --create writes it again. Nothing was changed.")
    }

    private static func noRepository(at place: String, _ why: String) -> StoreError {
        StoreError(
            .noSuchStore, what: "There is no backup repository at \"\(place)\".", why: why,
            remedy:
                "Check the path, and that its disk is mounted. A backup with --create makes a repository, and writes "
                + "the object \"\(ObjectKind.formatName)\" of one again that has lost it.")
    }

    /// Whether a folder is a repository.
    package static func isAt(_ path: String) -> Bool {
        guard (try? Files.kind(path)) == .directory else { return false }
        return ((try? FolderPlace(path).get(ObjectKind.formatName, limitBytes: 1)) ?? nil) != nil
    }

    // MARK: Objects

    /// Reads an object and compares its hash.
    ///
    /// - Throws: `StoreError` `backupDamaged` when it is missing or changed.
    func object(_ kind: ObjectKind, _ hash: ObjectHash, limitBytes: Int) throws -> [UInt8] {
        guard let bytes = try place.get(kind.name(hash), limitBytes: limitBytes) else {
            throw damaged("its object \(kind.name(hash)) is missing")
        }
        guard try ObjectHash(of: bytes) == hash else { throw damaged("its object \(kind.name(hash)) was changed") }
        return bytes
    }

    /// Reads the table of a pack and compares its hash.
    func table(_ pack: ObjectHash, pageBytes: Int) throws -> PageTable {
        let name = ObjectKind.pack.name(pack)
        guard let start = try place.get(name, limitBytes: PageTable.limitBytes(pageBytes: pageBytes)) else {
            throw damaged("its object \(name) is missing")
        }
        let table: PageTable
        do {
            table = try PageTable(beginning: start)
        } catch {
            throw damaged("its object \(name) \(error)")
        }
        guard table.pageBytes == pageBytes, try ObjectHash(of: table.bytes) == pack else {
            throw damaged("its object \(name) was changed")
        }
        return table
    }

    /// Stores an object under the hash of its bytes, or of its first bytes. One that is there with other bytes is damaged,
    /// and replaced.
    @discardableResult
    func store(_ kind: ObjectKind, _ bytes: [UInt8], hash: ObjectHash) throws -> PutOutcome {
        let name = kind.name(hash)
        if try place.put(name, bytes) == .stored { return .stored }
        if try place.get(name, limitBytes: bytes.count) == bytes { return .alreadyPresent }
        try place.delete(name)
        return try place.put(name, bytes)
    }

    @discardableResult
    func store(_ kind: ObjectKind, _ bytes: [UInt8]) throws -> ObjectHash {
        let hash = try ObjectHash(of: bytes)
        try store(kind, bytes, hash: hash)
        return hash
    }

    func damaged(_ why: String) -> StoreError {
        StoreError(
            .backupDamaged, what: "The backup repository \"\(place.description)\" is damaged.",
            why: "\(why.prefix(1).uppercased())\(why.dropFirst()).",
            remedy: "Run `cipherctl backup verify` on it to see which backups are whole. Nothing was changed.")
    }
}
