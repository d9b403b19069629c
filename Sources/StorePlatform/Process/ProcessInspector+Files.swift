#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessInspector {
    /// The other processes that have a file open, as far as this one may see them; none where the system has no `/proc`.
    ///
    /// It finds what no lock shows: a connection in rollback mode that is idle holds none.
    package static func others(using path: String) -> [Int32] {
        guard let identity = (try? Files.identity(path)) ?? nil else { return [] }
        let name = "/" + Files.name(of: path)
        let processes = ((try? Files.names(inDirectory: "/proc")) ?? []).compactMap { Int32($0) }
        return processes.filter { $0 != currentProcess && has(open: identity, named: name, process: $0) }.sorted()
    }

    private static func has(open identity: FileIdentity, named name: String, process: Int32) -> Bool {
        let folder = "/proc/\(process)/fd"
        return ((try? Files.names(inDirectory: folder)) ?? []).contains { number in
            let link = "\(folder)/\(number)"
            // The name first: asking about a file on a dead network mount could take for ever.
            return target(of: link)?.hasSuffix(name) == true && (try? Files.identity(link)) == identity
        }
    }

    private static func target(of link: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(link, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
