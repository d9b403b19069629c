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

    /// Whether a file has no bytes, or is not there.
    public func isEmptyOrAbsent(_ name: String) -> Bool { files[name]?.isEmpty ?? true }

    /// The files that were made, removed or changed since, in order.
    public func changes(until later: FolderSnapshot) -> [String] {
        Set(files.keys).union(later.files.keys).filter { files[$0] != later.files[$0] }.sorted()
    }
}
