import CipherStore
import Foundation
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// Everything that has to hold of a store with the raw key of ``TestKeys``, whatever happened to the processes before.
public enum StoreProof {
    /// Opens the store as its next user would, without any hand, and looks at all of it; nobody else may have it open.
    ///
    /// - Parameters:
    ///   - wasPowerCut: Whether the machine lost its power, and not only processes were killed: a later commit that was not
    ///     synced may have reached the disk before an earlier one.
    ///   - wasTorn: Whether a process was killed in the middle of a write.
    ///   - body: Looks at the content.
    /// - Returns: What is wrong; empty when nothing is.
    public static func problems(
        _ path: String, afterPowerCut wasPowerCut: Bool = false, afterTornWrite wasTorn: Bool = false,
        _ body: (Database) throws -> [String] = { _ in [] }
    ) -> [String] {
        do {
            let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
            var problems = store.notices.filter { !isTraceOfInterruption($0, wasPowerCut, wasTorn) }
            problems += try store.read { db in
                try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" } + body(db)
            }
            // It can be written, too.
            try store.write { try $0.execute(sql: "CREATE TABLE proof (a); DROP TABLE proof") }
            try store.close()
            return try problems + damagedPages(path) + differentCopies(path)
        } catch {
            return ["\(error)"]
        }
    }

    /// A second copy of the sidecar that is missing or a version behind, and was made anew, is what a kill leaves. A
    /// last commit without the end of its last page is what a torn write leaves, by a kill or a power cut. Commits behind a
    /// gap in the WAL are what only a power cut leaves.
    private static func isTraceOfInterruption(_ notice: String, _ wasPowerCut: Bool, _ wasTorn: Bool) -> Bool {
        notice.contains("backup copy of the sidecar is missing")
            || notice.contains("backup copy of the sidecar is an older version")
            || (wasPowerCut || wasTorn) && notice.contains("the last commit in the WAL does not count")
            || wasPowerCut && notice.contains("the WAL has commits that do not count")
    }

    private static func differentCopies(_ path: String) -> [String] {
        let copies = ["-sidecar", "-sidecar.bak"].map { FileManager.default.contents(atPath: path + $0) }
        return copies[0] != nil && copies[0] == copies[1] ? [] : ["the copies of the sidecar are not the same"]
    }

    /// Authenticates every page of the file and every committed frame of the log.
    private static func damagedPages(_ path: String) throws -> [String] {
        let files = SidecarFiles(databasePath: path)
        guard let choice = try files.choose(files.read(), unlock: { try TestKeys.material("raw").unlock($0) }) else {
            return ["the sidecar cannot be read"]
        }
        let sidecar = choice.sidecar
        let keys = try PageKeys(choice.pageKey)
        let file = FileBytes(path)
        let log = FileBytes(path + "-wal")
        var superseded: Set<UInt32> = []
        var problems: [String] = []
        let scan = try WALScan.scan(fileBytes: log.bytes.count) { log.read(at: $0, into: $1) }
        if let scan, scan.committedFrames > 0 {
            superseded = Set(scan.lastFrames.keys)
            let frames = try PageScan.verifyFrames(keys: keys, of: scan, workers: 1) { log.read(at: $0, into: $1) }
            if !frames.isClean { problems.append("damaged frames: \(frames.damaged + frames.missing)") }
        }
        let pages = try PageScan.verifyPages(
            keys: keys, pageCount: UInt32(file.bytes.count / sidecar.settings.pageBytes), skipping: superseded,
            workers: 1
        ) { file.read(at: $0, into: $1) }
        if !pages.isClean { problems.append("damaged pages: \(pages.damaged) zero: \(pages.zero)") }
        return problems
    }
}

/// The bytes of a file that nobody has open.
private struct FileBytes: Sendable {
    let bytes: Data

    init(_ path: String) { bytes = FileManager.default.contents(atPath: path) ?? Data() }

    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = max(0, min(buffer.count, bytes.count - offset))
        guard count > 0 else { return 0 }
        return bytes.copyBytes(to: buffer, from: offset..<(offset + count))
    }
}
