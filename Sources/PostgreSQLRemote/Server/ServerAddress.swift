#if PostgreSQL
    import CPostgreSQL

    /// The URL of a server, taken apart. It may have a password, so nothing of it is printed but ``name``.
    final class ServerAddress: Sendable {
        /// `postgresql://host:5432/database`: without user, password and options.
        let name: String
        /// The options for libpq, for each host of the URL: each host gets an attempt of its own. libpq would spend the
        /// whole time limit on the first host if that does not answer.
        let attempts: [[Option]]

        struct Option: Sendable {
            let keyword: String
            let value: String
        }

        /// - Throws: ``PostgreSQLError`` `invalidURL`, without any part of the URL: it may have a password anywhere.
        init(url: String, connectLimit: Duration) throws(PostgreSQLError) {
            let options = try Self.parse(url)
            let named = { (keyword: String) in options.first { $0.keyword == keyword }?.value }
            let lists = ["host", "hostaddr", "port"].map { keyword in (keyword, Self.list(named(keyword))) }
            let count = lists.prefix(2).map(\.1.count).max() ?? 0
            // A password with such a letter in it that was not escaped: what follows it would be taken for a host or a port.
            guard lists[0].1.allSatisfy({ !$0.dropFirst().contains("@") }),
                lists[2].1.allSatisfy({ $0.isEmpty || UInt16($0).map { $0 > 0 } ?? false })
            else { throw Self.invalid("its host or port is invalid; a password may need escapes such as %40 and %2F") }
            name = Self.name(hosts: lists[0].1.isEmpty ? lists[1].1 : lists[0].1, ports: lists[2].1, named("dbname"))
            var common = options.filter { option in count < 2 || !lists.contains { $0.0 == option.keyword } }
            let defaults = [
                Option(keyword: "fallback_application_name", value: "CipherStore"),
                // For the connection of a cancellation; the others have a timer.
                Option(keyword: "connect_timeout", value: String(max(2, connectLimit.components.seconds))),
            ]
            common += defaults.filter { named($0.keyword) == nil }
            guard count >= 2 else {
                attempts = [common]
                return
            }
            guard lists.allSatisfy({ $0.1.isEmpty || $0.1.count == count || ($0.0 == "port" && $0.1.count == 1) })
            else {
                throw Self.invalid("it has not as many ports as hosts")
            }
            attempts = (0..<count).map { index in
                let own = lists.compactMap { keyword, values -> Option? in
                    guard let last = values.last else { return nil }
                    let value = index < values.count ? values[index] : last
                    return value.isEmpty ? nil : Option(keyword: keyword, value: value)
                }
                return common + own
            }
        }

        private static func invalid(_ reason: String) -> PostgreSQLError {
            PostgreSQLError(.invalidURL, "postgresql://...", reason)
        }

        private static func parse(_ url: String) throws(PostgreSQLError) -> [Option] {
            guard url.hasPrefix("postgresql://") || url.hasPrefix("postgres://") else {
                throw invalid("it does not begin with postgresql://")
            }
            guard url.utf8.count <= PostgreSQLLimits.urlBytes, !url.utf8.contains(0) else {
                throw invalid("it is longer than \(PostgreSQLLimits.urlBytes) bytes")
            }
            var message: UnsafeMutablePointer<CChar>?
            defer { PQfreemem(message) }
            guard let parsed = PQconninfoParse(url, &message) else {
                throw invalid("it has an unknown option, or a wrong escape or bracket")
            }
            defer { PQconninfoFree(parsed) }
            var options: [Option] = []
            var next = parsed
            while let keyword = next.pointee.keyword {
                if let value = next.pointee.val {
                    options.append(Option(keyword: String(cString: keyword), value: String(cString: value)))
                }
                next += 1
            }
            return options
        }

        private static func list(_ value: String?) -> [String] {
            value.map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) } ?? []
        }

        private static func name(hosts: [String], ports: [String], _ database: String?) -> String {
            let isLocal = hosts.contains { $0.hasPrefix("/") || $0.hasPrefix("@") }
            let named = hosts.enumerated().map { index, host in
                let port = index < ports.count ? ports[index] : ports.last ?? ""
                let text = host.contains(":") && !isLocal ? "[\(host)]" : host
                return port.isEmpty || isLocal ? text : "\(text):\(port)"
            }.joined(separator: ",")
            let path = "/" + (database ?? "")
            return isLocal ? "postgresql://\(path)?host=\(named)" : "postgresql://\(named)\(path)"
        }
    }

    extension ServerAddress: CustomStringConvertible, CustomReflectable {
        var description: String { name }
        var customMirror: Mirror { Mirror(self, children: []) }
    }
#endif
