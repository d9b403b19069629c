import CipherStore
import Foundation
import PageFormat
import StorePlatform

/// The pages of a database as file and log hold them, put together without the library's reader of page snapshots.
public enum FoldedFiles {
    /// The pages at the last commit, from copies of both files. Nobody may write meanwhile.
    ///
    /// The copies are made by another program: closing a descriptor here would drop SQLite's locks.
    public static func fold(_ path: String) throws -> [[UInt8]] {
        let folder = TemporaryFolder()
        for ending in ["", "-wal"] where FileManager.default.fileExists(atPath: path + ending) {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/cp")
            process.arguments = [path + ending, folder.path("copy.db" + ending)]
            try process.run()
            process.waitUntilExit()
        }
        let main = Array(try Data(contentsOf: folder.url.appendingPathComponent("copy.db")))
        let log = Array((try? Data(contentsOf: folder.url.appendingPathComponent("copy.db-wal"))) ?? Data())
        let scan = try WALScan.scan(fileBytes: log.count) { offset, buffer in
            let piece = log[min(offset, log.count)..<min(offset + buffer.count, log.count)]
            buffer.copyBytes(from: piece)
            return piece.count
        }
        let pageBytes = scan?.header.pageBytes ?? 4096
        var pages = stride(from: 0, to: main.count, by: pageBytes).map { Array(main[$0..<$0 + pageBytes]) }
        guard let scan, scan.committedFrames > 0 else { return pages }
        let empty = [UInt8](repeating: 0, count: pageBytes)
        pages += Array(repeating: empty, count: max(0, Int(scan.databasePages) - pages.count))
        pages.removeLast(pages.count - Int(scan.databasePages))
        for (page, frame) in scan.lastFrames {
            let offset = scan.pageOffset(ofFrame: frame)
            pages[Int(page) - 1] = Array(log[offset..<offset + pageBytes])
        }
        return pages
    }

    /// All pages of a page snapshot, read in pieces of odd sizes.
    package static func pages(of view: PageSnapshot) throws -> [[UInt8]] {
        var pages: [[UInt8]] = []
        var next: UInt32 = 1
        while next <= view.databasePages {
            let count = min(7, Int(view.databasePages - next) + 1)
            var bytes = [UInt8](repeating: 0, count: count * view.pageBytes)
            try bytes.withUnsafeMutableBytes { try view.read(firstPage: next, count: count, into: $0) }
            pages += (0..<count).map { Array(bytes[$0 * view.pageBytes..<($0 + 1) * view.pageBytes]) }
            next += UInt32(count)
        }
        return pages
    }

    /// The pages that a delta makes of earlier ones.
    package static func apply(
        _ delta: WALDelta, of view: PageSnapshot, to pages: [[UInt8]]
    ) throws -> [[UInt8]] {
        var pages = Array(pages.prefix(Int(delta.databasePages)))
        let empty = [UInt8](repeating: 0, count: view.pageBytes)
        pages += Array(repeating: empty, count: Int(delta.databasePages) - pages.count)
        for (page, frame) in delta.pages {
            try pages[Int(page) - 1].withUnsafeMutableBytes { try view.readFrame(frame, into: $0) }
        }
        return pages
    }
}
