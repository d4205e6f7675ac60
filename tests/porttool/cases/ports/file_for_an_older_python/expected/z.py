print 2
