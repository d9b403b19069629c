import CipherStore
import Foundation
import StorePlatform
import StoreTools

/// Searches files for bytes that must not be in them.
enum TraceSearch {
    /// The regular files at a path, or below it when it is a folder, that hold these bytes.
    static func files(under path: String, holding needle: [UInt8]) -> [String] {
        switch try? Files.kind(path) {
        case .regular: return holds(path, needle) ? [path] : []
        case .directory:
            let names = FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []
            return names.sorted().map { "\(path)/\($0)" }.filter {
                (try? Files.kindOfName($0)) == .regular && holds($0, needle)
            }
        default: return []
        }
    }

    private static func holds(_ path: String, _ needle: [UInt8]) -> Bool {
        // It may be a database that this process has open: its descriptor is never closed.
        guard let file = try? RawFile(path), let count = try? file.byteCount else { return false }
        var offset = max(0, count - ConformanceLimits.traceBytes)
        while offset < count {
            guard let piece = try? file.bytes(at: offset, count: ConformanceLimits.searchedBytes + needle.count),
                !piece.isEmpty
            else { return false }
            if piece.contains(subsequence: needle) { return true }
            offset += ConformanceLimits.searchedBytes
        }
        return false
    }
}
