import Foundation
import KeyCustody
import RotationCore
import StorePlatform
import StoreSharing
import StoreTools
import TestKit

@testable import CipherStore

/// Rotations, backups, key logs, whole stores and files of the standard form, by the code that a program and cipherctl
/// run. Each vector gets files of its own.
enum StoreVectors {
    /// Writes the parts of a vector, and returns the path of the database.
    private static func write(_ vector: ConformanceVector, to folder: TemporaryFolder) throws -> String {
        let path = folder.path("app.db")
        let paths = StorePaths(path)
        let names = [
            "database": path, "wal": paths.wal, "rotating": paths.rotationCopy, "main": paths.sidecar,
            "backup": paths.sidecarBackup, "keylog": KeyLog(databasePath: path).path,
            "keylog.1": KeyLog(databasePath: path).formerPath,
        ]
        for (part, content) in vector.parts {
            try Data(content).write(to: URL(filePath: names[part] ?? folder.path(part)))
        }
        return path
    }

    // MARK: Rotations

    static func rotation(_ vector: ConformanceVector) throws -> VectorVerdict {
        let folder = TemporaryFolder()
        let path = try write(vector, to: folder)
        let secret = try KeyVectors.secret(vector)
        let paths = StorePaths(path)
        // As an opener for writing holds it.
        guard let opening = try LockFile(path: paths.lock, likeFile: path).tryLock(.opening, .exclusive) else {
            return VectorVerdict("storeInUse")
        }
        defer { opening.release() }
        func results() throws -> [String: String] {
            [
                "rotating": Files.exists(paths.rotationCopy) ? "present" : "absent",
                "database_sha256": try Array(Data(contentsOf: URL(filePath: path))).sha256(),
            ]
        }
        do {
            guard try RotationRecovery.run(paths, unlock: { try secret.unlock($0) }) != nil else {
                return VectorVerdict("storeInUse")
            }
        } catch {
            // A refused file must not have been changed.
            return try VectorVerdict(VectorVerdict(error).name, results())
        }
        let epoch = SidecarFiles(databasePath: path).read().newestClaimed?.epoch ?? 0
        return try .ok(results().merging(["epoch": "\(epoch)"]) { $1 })
    }

    // MARK: Backups

    static func backup(_ vector: ConformanceVector) throws -> VectorVerdict {
        let folder = TemporaryFolder()
        _ = try write(vector, to: folder)
        do {
            let report = try SharedStore.verifyBackup(at: folder.url.path, unlockedBy: KeyVectors.source(vector))
            return .ok(["pages": "\(report.pages)", "epoch": "\(report.epoch)"])
        } catch let error as StoreError where error.code == .backupDamaged {
            return VectorVerdict("backupDamaged", damagedLine(vector).map { ["line": "\($0)"] } ?? [:])
        }
    }

    /// The line of the manifest that is not as the format says.
    private static func damagedLine(_ vector: ConformanceVector) -> Int? {
        guard let manifest = vector.parts[BackupBundle.manifestName], manifest.count <= StoreLimits.manifestBytes
        else {
            return nil
        }
        do {
            _ = try BackupManifest.parse(manifest)
            return nil
        } catch {
            return error.line
        }
    }

    // MARK: Key logs

    static func keylog(_ vector: ConformanceVector) throws -> VectorVerdict {
        let folder = TemporaryFolder()
        let path = try write(vector, to: folder)
        let audit = try KeyLog(databasePath: path).verify()
        let problems = audit.problems.map { "\($0.file.dropFirst("app.db-".count)):\($0.line)" }
        let results = [
            "lines": "\(audit.entries.count)", "problems": problems.listed, "notes": "\(audit.notes.count)",
            "acknowledged": "\(audit.acknowledged.count)",
        ]
        return problems.isEmpty ? .ok(results) : VectorVerdict("keyLogChanged", results)
    }

    // MARK: Stores

    static func store(_ vector: ConformanceVector) throws -> VectorVerdict {
        let folder = TemporaryFolder()
        let path = try write(vector, to: folder)
        let source = try KeyVectors.source(vector)
        // An opening names what prevents it by the code of its error, a verification what it found.
        let opening = Result { try pageCount(path, source) }
        let report: StoreVerification.Report
        do {
            report = try StoreVerification(path, unlockedBy: source).run()
        } catch {
            if case .failure(let first) = opening, first is StoreError { return VectorVerdict(first) }
            throw error
        }
        let results = [
            "pages": "\((try? opening.get()) ?? 0)", "frames": "\(report.framesChecked)",
            "zero_pages": report.zeroPages.numbers.listed, "damaged_pages": report.damagedPages.numbers.listed,
            "missing_pages": report.missingPages.numbers.listed,
            "damaged_frames": report.damagedFrames.map(\.number).listed,
        ]
        if case .failure(let error as StoreError) = opening { return VectorVerdict(VectorVerdict(error).name, results) }
        // Pages that are missing at the end must have been noticed by the opening.
        if let page = report.damagedPages.numbers.first { return VectorVerdict("pageDamaged \(page)", results) }
        if let frame = report.damagedFrames.first { return VectorVerdict("frameDamaged \(frame.number)", results) }
        if case .failure(let error) = opening { return VectorVerdict(VectorVerdict(error).name, results) }
        guard report.isSound else {
            let zero = report.zeroPages.numbers.first
            return VectorVerdict(zero.map { "pageDamaged \($0)" } ?? "contentDamaged", results)
        }
        return .ok(results)
    }

    /// Opens a store, and returns the number of pages that SQLite sees.
    private static func pageCount(_ path: String, _ source: KeySource) throws -> Int {
        guard let store = try SharedStore.openReadOnly(at: path, unlockedBy: source) else {
            throw VectorVerdict("noSuchStore")
        }
        let count = try store.read { try Int.fetchOne($0, sql: "PRAGMA page_count") ?? 0 }
        try store.close()
        return count
    }

    // MARK: The standard form

    static func standard(_ vector: ConformanceVector) throws -> VectorVerdict {
        let folder = TemporaryFolder()
        let path = try write(vector, to: folder)
        let report = try StoreAdoption(path, unlockedBy: KeyVectors.source(vector)).run()
        let sidecar = SidecarFiles(databasePath: path).read().newestClaimed
        let bytes = try Data(contentsOf: URL(filePath: report.path)).count
        return .ok(["pages": "\(bytes / (sidecar?.settings.pageBytes ?? 1))"])
    }
}

extension PageRanges {
    fileprivate var numbers: [UInt32] { ranges.flatMap { Array($0) } }
}
