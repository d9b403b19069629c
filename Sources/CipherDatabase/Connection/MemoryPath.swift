import Foundation

/// The paths that stand for databases without a file.
enum MemoryPath {
    /// A database that one connection has for itself.
    static let own = ":memory:"

    /// A database that all connections of the process share which name it.
    ///
    /// - SeeAlso: <https://www.sqlite.org/inmemorydb.html>
    static func shared(named name: String) -> String {
        "file:/\(name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? name)?vfs=memdb"
    }

    /// Whether a path names a database without a file; an empty path does, too.
    static func names(_ path: String) -> Bool { path.isEmpty || path == own || isURI(path) }

    /// Whether a path is an address of a database in memory. Addresses of files are taken for their names.
    static func isURI(_ path: String) -> Bool {
        guard path.hasPrefix("file:") else { return false }
        if path == "file::memory:" || path.hasPrefix("file::memory:?") { return true }
        let settings = path.drop { $0 != "?" }.dropFirst().split(separator: "&")
        return settings.contains("mode=memory") || settings.contains("vfs=memdb")
    }
}
