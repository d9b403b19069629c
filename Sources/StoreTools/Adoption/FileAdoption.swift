import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// Makes a store of a standard SQLCipher file and replaces the file by it.
///
/// A file of version 4 keeps every page but the first, which is encrypted again with the same key so that its first 32
/// bytes are readable and the salt moves to the sidecar. A file of an older version is copied row by row, and kept.
///
/// At every moment the path names one of two complete files: the old one, which opens as before, or the store. The
/// sidecar is written first, in state `creating`; beside a standard file that means only that an adoption was
/// interrupted.
struct FileAdoption {
    let target: AdoptionTarget
    let salt: Salt
    let key: UnlockedKey
    /// Settings and key of the file; nil for version 1, which only SQLCipher itself can open.
    let found: CipherProbe.Found?
    /// SQLCipher's major version.
    let version: Int
    /// Its `prepareDatabase` gives the connections what the schema needs.
    let program: Configuration
    let run: ToolRun

    struct Result {
        let hash: ContentHash
        /// The path at which the original is kept; nil when the store has its pages.
        let original: String?
        /// The error, if any, after the store had replaced the file; the opening that follows repeats the failed steps.
        let postponed: (any Error)?
        /// Whether its sidecar says that the store is complete.
        let isReady: Bool
        /// The indexes that a copy was given without.
        let leftOut: [LeftOutIndex]
        /// The indexes that do not fit their tables.
        let damagedIndexes: [DamagedIndex]
    }

    /// The store that is ready to replace the file.
    private struct Replacement {
        let sidecar: Sidecar
        let dataKey: DataKey
        let hash: ContentHash
        var leftOut: [LeftOutIndex] = []
        let damagedIndexes: [DamagedIndex]
    }

    /// The caller holds the opening lock, so that Ctrl-Z does not stop the process.
    ///
    /// - Throws: As ``StoreAdoption/perform(_:)``.
    func adopt() throws -> Result {
        let file = try AdoptedFile(target.path)
        let known = found.map { UnlockedKey(raw: $0.dataKey) } ?? key
        let source = ForeignDatabase(
            target.path, known, version: version, settings: found?.settings,
            program: program)
        let staging = try StagingDirectory(for: target.path, .adopting)
        defer { staging.remove() }
        var kept: KeptOriginal?
        do {
            try requireWhole()
            try source.fold()
            let replacement = try prepare(file, source, in: staging)
            CrashPoint.reach(.adoptionPrepared)
            try run.check()
            kept = try keepOriginal(file)
            let (postponed, isReady) = try publish(replacement, from: staging)
            return Result(
                hash: replacement.hash, original: kept?.path, postponed: postponed, isReady: isReady,
                leftOut: replacement.leftOut, damagedIndexes: replacement.damagedIndexes)
        } catch {
            try? kept?.name?.remove()
            file.unlock()
            source.restore()
            throw error
        }
    }

    // MARK: Examining

    /// Authenticates every page: a store is not made of a damaged file. No query may read a free page, or a page of an
    /// index, for years, and the content hash reads none of them.
    ///
    /// - Throws: `StoreError` `truncated`, `pageDamaged`. Pages of version 1 have no code.
    private func requireWhole() throws {
        guard let found else { return }
        let file = try RawFile(target.path)
        let key = PageKey(found.dataKey, salt: salt, settings: found.settings)
        if let loss = try WALContent.loss(of: target.path, key), loss.needsAttention { throw damagedWAL(loss) }
        let scan = StoreScan(path: target.path, file: file, key: key, run: run)
        let report = try scan.authenticate(pageCount: pageCount(file, found))
        let remedy = "Restore it from a backup, then adopt it. The file was not changed."
        if !report.missingPages.isEmpty {
            throw StoreError(
                .truncated, what: "The end of \"\(target.path)\" is missing.",
                why: CountText.text(report.missingPages.count, "page of it is", "pages of it are")
                    + " neither in the file nor in its WAL.",
                remedy: remedy)
        }
        let damaged = report.damagedPages.ranges.first?.lowerBound ?? report.damagedFrames.first?.page
        if let damaged {
            throw StoreError(
                .pageDamaged(damaged), what: "Page \(damaged) of \"\(target.path)\" is damaged.",
                why: "Its authentication code does not fit its content, while the key fits page 1.", remedy: remedy)
        }
    }

    /// An adoption copies the WAL into the file and removes it, with all commits behind the damage.
    private func damagedWAL(_ loss: WALContent.Loss) -> ToolError {
        ToolError(
            .notAdoptable, what: "\"\(target.path)\" cannot be adopted with its WAL.",
            why: loss.note.prefix(1).uppercased() + loss.note.dropFirst() + ".",
            remedy:
                "Keep a copy of the file and of \"\(target.paths.wal)\". Restore both from a backup; or open the file once "
                + "with the program that wrote it, which drops these commits, and adopt it then. The file was not changed."
        )
    }

    /// The number of pages in the header of page 1; nil where SQLite counts them by the length of the file.
    private func pageCount(_ file: RawFile, _ found: CipherProbe.Found) throws -> Int? {
        let page = try file.bytes(at: 0, count: found.settings.pageBytes)
        var plain = page
        var codec = try found.codec(salt, found.settings)
        try page.withUnsafeBytes { page in
            try plain.withUnsafeMutableBytes { try codec.decrypt(page, number: 1, into: $0) }
        }
        let counter = plain[DatabaseHeader.Offset.changeCounter...].prefix(4)
        guard counter.elementsEqual(plain[DatabaseHeader.Offset.versionValidFor...].prefix(4)) else { return nil }
        return DatabaseHeader(plain).map { Int($0.pageCount) }
    }

    // MARK: Preparing

    private func prepare(
        _ file: AdoptedFile, _ source: ForeignDatabase, in staging: StagingDirectory
    ) throws -> Replacement {
        if version == 4, let found { return try prepareByFirstPage(file, source, found, in: staging) }
        var firstPage: [UInt8] = []
        let copied = try EncryptedCopy(source: source.opened(), key: key, scheme: .direct, program: program, run: run)
            .make(in: staging) {
                firstPage = try file.beginning(1024)
            }
        try lock(file, source, unchangedSince: firstPage)
        guard let staged = try staging.folder.writableFile(staging.fileName, creating: nil) else {
            throw SystemError.exchanged("open", staging.filePath)
        }
        try FileAttributes(of: target.path)?.apply(to: staged)
        try staged.synchronize()
        let files = SidecarFiles(databasePath: staging.filePath)
        guard let made = try files.choose(files.read(), unlock: key.unlock) else {
            throw SystemError(call: "open", path: files.mainPath, errorNumber: ENOENT)
        }
        return Replacement(
            sidecar: made.sidecar, dataKey: made.dataKey, hash: copied.hash,
            leftOut: copied.leftOut, damagedIndexes: copied.damagedIndexes)
    }

    private func prepareByFirstPage(
        _ file: AdoptedFile, _ source: ForeignDatabase, _ found: CipherProbe.Found, in staging: StagingDirectory
    ) throws -> Replacement {
        let pageBytes = found.settings.pageBytes
        var firstPage: [UInt8] = []
        let (hash, pages, damaged) = try source.opened().read { db in
            try FullTextStructure.requireSound(db)
            try requireNoRepository(db)
            let damaged = try DamagedIndex.find(db, run)
            let hash = try ContentHash.of(db, run, .readingSource)
            firstPage = try file.beginning(pageBytes)
            return (hash, try Int.fetchOne(db, sql: "PRAGMA main.page_count") ?? 0, damaged)
        }
        try lock(file, source, unchangedSince: firstPage)
        var settings = found.settings
        settings.plaintextHeaderBytes = CipherSettings.plaintextHeader.plaintextHeaderBytes
        let newPage = try reencrypt(firstPage, found, settings)
        // Closed before SQLite opens the file, which is proved by what this process has open.
        do {
            let new = try staging.folder.newFile(staging.fileName)
            try file.copy(to: new, firstPage: newPage, byteCount: pages * pageBytes) { done, total in
                try run.check()
                run.report(ToolProgress(.copyingFile, done: done, total: total))
            }
        }
        try verify(staging, UnlockedKey(raw: found.dataKey), settings, expecting: hash)
        return Replacement(
            sidecar: try .creating(settings: settings, salt: salt), dataKey: found.dataKey, hash: hash,
            damagedIndexes: damaged)
    }

    /// The store keeps the pages of the file, and would be a second member with the keys of the first.
    private func requireNoRepository(_ db: Database) throws {
        guard try SchemaEntry.all(db).contains(where: \.isOfRepository) else { return }
        throw ToolError(
            .notAdoptable, what: "\"\(target.path)\" cannot be adopted: it has a sync repository of another store.",
            why:
                "Its tables cipherstore_repository_* have the keys of a member and its remotes, which belong to one store.",
            remedy: "Drop these tables with the program that wrote the file, then adopt it. The file was not changed.")
    }

    /// Closes the connection and keeps all others out; no process may have written in between.
    private func lock(_ file: AdoptedFile, _ source: ForeignDatabase, unchangedSince firstPage: [UInt8]) throws {
        try source.close()
        try file.lock()
        let hasWALOrJournal = try [target.paths.wal, target.paths.journal].contains { try Files.byteCount($0) ?? 0 > 0 }
        // In rollback mode every writing transaction also writes page 1, with a new initialization vector.
        guard !hasWALOrJournal, try file.beginning(firstPage.count) == firstPage else {
            throw AdoptedFile.inUse(target.path, "Another program wrote to it meanwhile.")
        }
        CrashPoint.reach(.adoptionLocked)
    }

    /// The same first page, with a plaintext header.
    private func reencrypt(
        _ page: [UInt8], _ found: CipherProbe.Found, _ settings: CipherSettings
    ) throws -> [UInt8] {
        var old = try found.codec(salt, found.settings)
        var new = try found.codec(salt, settings)
        var plain = [UInt8](repeating: 0, count: page.count)
        var result = plain
        try page.withUnsafeBytes { page in
            try plain.withUnsafeMutableBytes { plain in
                try old.decrypt(page, number: 1, into: plain)
                try result.withUnsafeMutableBytes { result in
                    try new.encrypt(UnsafeRawBufferPointer(plain), number: 1, into: result)
                }
            }
        }
        return result
    }

    /// Reads the new file back completely, and compares.
    private func verify(
        _ staging: StagingDirectory, _ key: UnlockedKey, _ settings: CipherSettings, expecting hash: ContentHash
    ) throws {
        var configuration = Configuration.ofTool()
        configuration.readonly = true
        configuration.label = "StoreTools.verify"
        configuration.prepareDatabase { [salt, version] db in
            try key.give(to: db)
            try settings.apply(to: db, version: version)
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = \(settings.plaintextHeaderBytes)")
            try db.execute(sql: "PRAGMA cipher_salt = \"x'\(salt.hex)'\"")
        }
        let queue = try DatabaseQueue(path: staging.filePath, configuration: configuration)
        defer { try? queue.close() }
        try staging.requireOpened()
        let copied = try queue.read { db in try ContentHash.of(db, run, .verifyingCopy) }
        guard copied == hash else {
            throw ToolError(
                .contentDiffers, what: "The store is not the same as \"\(target.path)\".",
                why: "The content hash was \(hash.hex) before, and is \(copied.hex) after.",
                remedy: "The file was left as it is. This is a defect of this program: please report it.")
        }
    }

    // MARK: Publishing

    /// Links the original to a second name, which stays.
    ///
    /// - Returns: That name, and whether it was created here; nil when the store has the original's pages.
    private func keepOriginal(_ file: AdoptedFile) throws -> KeptOriginal? {
        guard version < 4 else { return nil }
        let backup = target.backupPath(version: version)
        let folder = try OpenFolder(opening: Files.directory(of: target.path))
        let (original, name) = (Files.name(of: target.path), Files.name(of: backup))
        // Another file of that name, a link to the original too, would not keep it.
        if try folder.status(of: name) != nil {
            try target.requireFreeBackup(version: version)
            return KeptOriginal(path: backup, name: nil)
        }
        var identity = try folder.status(of: original)?.identity
        do {
            if try !hasLinked(original, to: name, in: folder) {
                let total = try file.byteCount
                let start = try file.beginning(min(total, ToolLimits.copiedBytes))
                let new = try folder.newFile(name)
                identity = try new.status().identity
                try file.copy(to: new, firstPage: start, byteCount: total) { _, _ in try run.check() }
            }
            try folder.synchronize()
        } catch {
            // A name that was taken meanwhile is another user's.
            if (error as? SystemError)?.isAlreadyThere != true, let identity {
                try? folder.remove(name, verifiedAs: identity)
            }
            throw error
        }
        return KeptOriginal(path: backup, name: identity.map { OwnedName(name, in: folder, of: $0) })
    }

    /// The original file of an older version, under its second name.
    private struct KeptOriginal {
        let path: String
        /// The name that this adoption has made; nil where it was there before.
        let name: OwnedName?
    }

    /// Links a file to a second name; false on a filesystem without hard links.
    private func hasLinked(_ name: String, to newName: String, in folder: OpenFolder) throws(SystemError) -> Bool {
        do throws(SystemError) {
            try folder.link(name, to: folder, newName)
            return true
        } catch  where error.isUnsupported {
            return false
        }
    }

    /// Replaces the file by the store. The rename is the commit point.
    ///
    /// - Returns: The error after the rename, nil when all is done and durable; and whether the sidecar says that the
    ///   store is complete. If it does not, the next opening for writing completes it.
    /// - Throws: The error before the rename: the file is unchanged.
    private func publish(_ replacement: Replacement, from staging: StagingDirectory) throws -> (
        postponed: (any Error)?, isReady: Bool
    ) {
        let name = staging.fileName
        try target.removeAnnouncement()
        var announced = replacement.sidecar
        announced.state = .creating
        announced.generation = 1
        do {
            try target.sidecar.write(announced, dataKey: replacement.dataKey)
            CrashPoint.reach(.adoptionAnnounced)
            try staging.move(name, to: target.path)
        } catch {
            // Unless the store is in place already, and only the sync of its folder failed.
            guard ((try? staging.folder.status(of: name)) ?? nil) != nil else { return (error, false) }
            try? target.removeAnnouncement()
            throw error
        }
        CrashPoint.reach(.adoptionRenamed)
        var isReady = false
        do {
            try target.sidecar.write(announced.next(.ready), dataKey: replacement.dataKey) { isReady = true }
        } catch {
            return (error, isReady)
        }
        CrashPoint.reach(.adoptionEnded)
        return (nil, true)
    }
}
