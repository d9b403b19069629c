import Foundation

/// The place of a remote, as people write it: `dir:/mnt/share`, or `postgresql://user@host:5432/database`.
///
/// Its description has no password.
package struct RemoteAddress: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// A folder.
        case directory(path: String)
        /// The URL of a PostgreSQL server.
        case postgreSQL
    }

    package let kind: Kind
    /// As it was given. It may have a password.
    package let text: String

    /// - Parameter text: `dir:` and a path, or a URL that begins with `postgresql://` or `postgres://`. A relative path is
    ///   taken from the current directory.
    /// - Throws: ``RemoteAddressError``, without any part of the text.
    package init(_ text: String) throws {
        guard text.utf8.count <= ExchangeLimits.addressBytes else { throw RemoteAddressError(.tooLong) }
        guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }) else {
            throw RemoteAddressError(.unknownForm)
        }
        if text.hasPrefix("dir:") {
            let path = String(text.dropFirst(4))
            guard !path.isEmpty else { throw RemoteAddressError(.unknownForm) }
            let place = Self.normalized(path)
            kind = .directory(path: place)
            self.text = "dir:" + place
        } else if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") {
            kind = .postgreSQL
            self.text = text
            _ = try Parts(text)
        } else {
            throw RemoteAddressError(.unknownForm)
        }
    }

    private init(_ kind: Kind, _ text: String) { (self.kind, self.text) = (kind, text) }

    /// A path from the root, without `.` and empty parts: so a folder has one name, however it is written. `..` stays:
    /// after a symbolic link it is another folder.
    static func normalized(_ path: String) -> String {
        let absolute = path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
        return "/" + absolute.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
    }

    // MARK: Credentials

    /// Parameters of libpq that are secrets, by their names.
    /// <https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS>
    private static let secrets: Set = [
        "password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key",
    ]
    /// Parameters that belong to one user or machine.
    private static let personal: Set = [
        "user", "passfile", "sslkey", "sslcert", "service", "servicefile", "oauth_client_id",
    ]

    /// Parameters of libpq that somebody else may choose. The other ones lead a password to another machine than the host of
    /// the URL, read files of this one, or run commands at the server.
    private static let harmless: Set = [
        "sslmode", "connect_timeout", "application_name", "target_session_attrs", "keepalives", "keepalives_idle",
        "keepalives_interval", "keepalives_count", "tcp_user_timeout", "load_balance_hosts", "channel_binding",
    ]

    /// The address in an invitation, whose author chose it. A socket of this machine (`host=/...`) is allowed.
    ///
    /// - Throws: ``RemoteAddressError`` for a user, or a parameter that only the person who connects may choose.
    package init(offered text: String) throws {
        try self.init(text)
        guard kind == .postgreSQL else { return }
        let parts = try Parts(text)
        let isHarmless = parts.parameters.allSatisfy { parameter in
            let value = parameter.text.drop { $0 != "=" }.dropFirst()
            return Self.harmless.contains(parameter.name)
                || parameter.name == "host" && (String(value).removingPercentEncoding ?? "").hasPrefix("/")
        }
        guard parts.user == nil, isHarmless else { throw RemoteAddressError(.notOffered) }
    }

    /// Whether it has a password.
    package var hasPassword: Bool { withoutPassword != self }

    /// The same without password: what may be kept and shown.
    package var withoutPassword: RemoteAddress {
        stripped { parts in
            parts.user = parts.user.flatMap { user in
                let name = user.prefix { $0 != ":" }
                return name.isEmpty ? nil : String(name)
            }
            parts.parameters.removeAll { Self.secrets.contains($0.name) }
        }
    }

    /// The name under which a store remembers the remote: the path of a folder, or the URL without its password.
    package var name: String {
        if case .directory(let path) = kind { path } else { description }
    }

    /// The address of a remote by the name under which a store remembers it.
    ///
    /// - Throws: ``RemoteAddressError``
    package init(named name: String) throws { try self.init(name.hasPrefix("/") ? "dir:" + name : name) }

    /// The same without password, user, and files of this machine: what another device may get.
    package var withoutCredentials: RemoteAddress {
        stripped { parts in
            parts.user = nil
            parts.parameters.removeAll { Self.secrets.contains($0.name) || Self.personal.contains($0.name) }
        }
    }

    private func stripped(_ change: (inout Parts) -> Void) -> RemoteAddress {
        guard kind == .postgreSQL, var parts = try? Parts(text) else { return self }
        change(&parts)
        return RemoteAddress(kind, parts.text)
    }

    /// A URL, taken apart no further than is needed to find credentials.
    private struct Parts {
        let scheme: String
        var user: String?
        /// Hosts, ports and database.
        let place: String
        var parameters: [(name: String, text: String)]

        init(_ url: String) throws {
            guard let separator = url.range(of: "://") else { throw RemoteAddressError(.unknownForm) }
            scheme = String(url[..<separator.upperBound])
            let rest = url[separator.upperBound...]
            let query = rest.firstIndex(of: "?")
            let authority = rest.prefix { $0 != "/" && $0 != "?" }
            let at = authority.lastIndex(of: "@")
            // After the authority it may be the end of a password with a letter in it that was not escaped.
            guard !rest[authority.endIndex...].contains("@") else { throw RemoteAddressError(.notEscaped) }
            user = at.map { String(authority[..<$0]) }
            let start = at.map { rest.index(after: $0) } ?? rest.startIndex
            place = String(rest[start..<(query ?? rest.endIndex)])
            let list = query.map { rest[rest.index(after: $0)...].split(separator: "&") } ?? []
            parameters = list.map { parameter in
                let name = String(parameter.prefix { $0 != "=" })
                // libpq decodes the names, too.
                return ((name.removingPercentEncoding ?? name).lowercased(), String(parameter))
            }
        }

        var text: String {
            let query = parameters.map(\.text).joined(separator: "&")
            return scheme + (user.map { $0 + "@" } ?? "") + place + (query.isEmpty ? "" : "?" + query)
        }
    }
}

extension RemoteAddress: CustomStringConvertible, CustomReflectable {
    package var description: String { withoutPassword.text }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Why a text is no address of a remote. It has no part of the text, which may have a password anywhere.
package struct RemoteAddressError: Error, Hashable, Sendable {
    enum Code: String, Hashable, Sendable {
        /// It begins with nothing that is known.
        case unknownForm
        /// An `@` is where none may be.
        case notEscaped
        /// It is longer than 1024 bytes.
        case tooLong
        /// It is that of an invitation, and has a part that only the person who connects may choose.
        case notOffered
    }

    let code: Code

    init(_ code: Code) { self.code = code }

    /// The event.
    package var reason: String {
        switch code {
        case .unknownForm: "This is no address of a remote."
        case .notEscaped: "The address of the remote has an @ after its host."
        case .tooLong: "The address of the remote is longer than \(ExchangeLimits.addressBytes) bytes."
        case .notOffered: "The address in the invitation chooses a user, or how this machine connects to the server."
        }
    }

    /// The remedy.
    package var remedy: String {
        switch code {
        case .unknownForm: "Write dir:PATH, or postgresql://user@host:5432/database?sslmode=verify-full."
        case .notEscaped: "In names and passwords of a URL write %40 for @, %2F for /, %3F for ? and %3A for a colon."
        case .tooLong: "Give a shorter one; settings may be in a service file of libpq."
        case .notOffered:
            "Ask the author for the address, and give it with --remote."
        }
    }
}

extension RemoteAddressError: CustomStringConvertible {
    package var description: String { "\(code.rawValue): \(reason) \(remedy)" }
}
