import Foundation

/// Every byte of the files of a folder at one moment, to show that nothing was changed, lost or left behind.
public struct FolderSnapshot {
    private let files: [String: Data]

    public init(of folder: TemporaryFolder) { self.init(path: folder.url.path) }

    public init(path: String) {
        var files: [String: Data] = [:]
        for case let name as String in FileManager.default.enumerator(atPath: path) ?? .init() {
            files[name] = FileManager.default.contents(atPath: path + "/" + name) ?? Data()
        }
        self.files = files
    }

    /// The names in the folder, in order.
    public var names: [String] { files.keys.sorted() }

    /// The names of the files that hold these bytes anywhere, in order.
    public func names(holding bytes: Data) -> [String] { names.filter { files[$0]?.holds(bytes) == true } }

    /// Whether a file has no bytes, or is not there.
    public func isEmptyOrAbsent(_ name: String) -> Bool { files[name]?.isEmpty ?? true }

    /// The files that were made, removed or changed since, in order.
    public func changes(until later: FolderSnapshot) -> [String] {
        Set(files.keys).union(later.files.keys).filter { files[$0] != later.files[$0] }.sorted()
    }
}

extension Data {
    /// Whether these bytes lie anywhere in it.
    public func holds(_ bytes: Data) -> Bool {
        withUnsafeBytes { all in
            bytes.withUnsafeBytes { wanted in
                guard let start = all.baseAddress, let first = wanted.first, let pattern = wanted.baseAddress else {
                    return false
                }
                var offset = 0
                while offset + wanted.count <= all.count {
                    let left = all.count - wanted.count + 1 - offset
                    guard let hit = memchr(start + offset, Int32(first), left) else { return false }
                    if memcmp(hit, pattern, wanted.count) == 0 { return true }
                    offset = UnsafeRawPointer(hit) - start + 1
                }
                return false
            }
        }
    }
}
