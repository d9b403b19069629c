import CipherDatabase

// Parts of requests that are known when there is a connection: the closures run each time that the request is fetched.

extension SelectionRequest {
    /// Selects what a closure returns in the place of all that was selected. It runs when the request is fetched.
    public func selectWhenConnected(
        _ selection: @escaping @Sendable (Database) throws -> [any SQLSelectable]
    ) -> Self {
        changed { $0.selection = [Self.deferred(selection)] }
    }

    /// Adds what a closure returns to what is selected. It runs when the request is fetched.
    public func annotatedWhenConnected(
        with selection: @escaping @Sendable (Database) throws -> [any SQLSelectable]
    ) -> Self {
        changed { $0.selection.append(Self.deferred(selection)) }
    }

    private static func deferred(
        _ selection: @escaping @Sendable (Database) throws -> [any SQLSelectable]
    ) -> Selection {
        .deferred(Deferred { db in try selection(db).map { $0.sqlSelection.content } })
    }
}

extension Term {
    /// The expressions that a closure returns.
    fileprivate static func deferred(
        _ expressions: @escaping @Sendable (Database) throws -> [any SQLExpressible]
    ) -> Term {
        Term(.deferred(Deferred { db in try expressions(db).map { Term($0.sqlExpression) } }))
    }
}

extension FilteredRequest {
    /// All rows, or none, as a closure says. It runs when the request is fetched.
    public func filterWhenConnected(_ predicate: @escaping @Sendable (Database) throws -> ConstantCondition) -> Self {
        filtering(.deferred { db in [try predicate(db).term.expression] })
    }

    /// The rows for which a condition that a closure returns is true as well. It runs when the request is fetched.
    public func filterWhenConnected(
        _ predicate: @escaping @Sendable (Database) throws -> any SQLSpecificExpressible
    ) -> Self {
        filtering(.deferred { db in [try predicate(db)] })
    }

    /// The rows for which a condition that a closure returns is true as well. It runs when the request is fetched.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func filterWhenConnected(
        _ predicate: @escaping @Sendable (Database) throws -> any SQLExpressible
    ) -> Self {
        filtering(.deferred { db in [try predicate(db)] })
    }
}

extension AggregatingRequest {
    /// Makes one row of all rows that have the same values, in the place of former groups. The closure runs when the
    /// request is fetched.
    public func groupWhenConnected(
        _ expressions: @escaping @Sendable (Database) throws -> [any SQLSpecificExpressible]
    ) -> Self {
        changed { $0.groups = [.deferred { try expressions($0) }] }
    }

    /// Makes one row of all rows that have the same values, in the place of former groups. The closure runs when the
    /// request is fetched.
    @_disfavoredOverload
    public func groupWhenConnected(
        _ expressions: @escaping @Sendable (Database) throws -> [any SQLExpressible]
    ) -> Self {
        changed { $0.groups = [.deferred(expressions)] }
    }

    /// The groups for which a condition that a closure returns is true as well. It runs when the request is fetched.
    public func havingWhenConnected(
        _ predicate: @escaping @Sendable (Database) throws -> any SQLSpecificExpressible
    ) -> Self {
        changed { $0.having.append(.deferred { db in [try predicate(db)] }) }
    }

    /// The groups for which a condition that a closure returns is true as well. It runs when the request is fetched.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func havingWhenConnected(
        _ predicate: @escaping @Sendable (Database) throws -> any SQLExpressible
    ) -> Self {
        changed { $0.having.append(.deferred { db in [try predicate(db)] }) }
    }
}

extension OrderedRequest {
    /// The rows in an order that a closure returns, in the place of a former one. It runs when the request is fetched.
    public func orderWhenConnected(
        _ orderings: @escaping @Sendable (Database) throws -> [any SQLOrderingTerm]
    ) -> Self {
        let element = Ordering.Element.deferred(
            Deferred { db in
                try orderings(db).map { .term($0.sqlOrdering.term, $0.sqlOrdering.direction) }
            })
        return changed { $0.ordering = Ordering(elements: [element]) }
    }
}
